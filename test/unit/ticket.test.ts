import { describe, expect, it } from "vitest";
import { BackendUnavailableError, DriverError } from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { rejection, World } from "../fixtures/world.ts";

describe("a place in the queue", () => {
  it("that is taken after a long wait for others rides out a short outage", async () => {
    const world = new World();
    const holder = await world.manager().acquire("a");
    let failing = 2;
    const manager = world.manager({}, async (step, run, [ask]) => {
      const { holder: who = "" } = ask as { readonly holder?: string };
      if (step === "attempt" && who.includes("another") && failing > 0) {
        failing -= 1;
        throw new DriverError("unavailable", "not-applied", "connection reset");
      }
      return await run();
    });
    const first = manager.acquire("a");
    // On other terms, so that it is not handed on: it asks for itself once the first one has got its lease.
    const second = manager.acquire("a", { label: "another" });
    await world.clock.advance(60_000);
    await holder.release();
    const lease = await world.clock.settle(first);
    expect(failing).toBeLessThan(2);
    await lease.release();
    expect(await world.clock.settle(second)).toMatchObject({ state: "held" });
  });

  it("is refused at once to all who waited through the same outage", async () => {
    const world = new World();
    const manager = world.manager({}, async (step, run) => {
      if (step === "attempt") throw new DriverError("unavailable", "not-applied", "down");
      return await run();
    });
    const startedAt = world.clock.mono();
    const refusals = Array.from({ length: 20 }, async () => rejection(manager.acquire("a")));
    for (const error of await world.clock.settle(Promise.all(refusals)))
      expect(error).toBeInstanceOf(BackendUnavailableError);
    expect(world.clock.mono() - startedAt).toBeLessThan(7000);
  });

  it("that vanished leaves no ghost, when an ask for it was still on its way", async () => {
    const world = new World();
    const holder = await world.manager().acquire("a", { keepalive: "auto" });
    const late: (() => Promise<unknown>)[] = [];
    let vanish = false;
    const manager = world.manager({}, async (step, run, args) => {
      if (step !== "attempt") return await run();
      if (late.length === 0) {
        late.push(run);
        throw new DriverError("unavailable", "unknown", "connection reset");
      }
      if (vanish) {
        vanish = false;
        const [{ name, mode, grantId, ttlMs }] = args as [
          { name: string; mode: string; grantId: string; ttlMs: number },
        ];
        dropped.push({ name, mode, grantId, ttlMs });
        return { kind: "vanished" };
      }
      return await run();
    });
    const dropped: unknown[] = [];
    const waiting = manager.acquire("a");
    await world.clock.advance(500);
    vanish = true;
    await world.clock.advance(2000);
    expect(dropped).toHaveLength(1);
    await holder.release();
    const lease = await world.clock.settle(waiting);
    await lease.release();
    // Only now does the first packet arrive.
    await late[0]?.();
    expect(await world.manager().tryAcquire("a")).not.toBeNull();
  });
});

describe("a link that went silent", () => {
  it("is waited for once by one attempt", async () => {
    const world = new World();
    const manager = world.manager({ ttl: 3000 }, async () => silence());
    const startedAt = world.clock.mono();
    const error = await world.clock.settle(rejection(manager.tryAcquire("a")));
    expect(error).toBeInstanceOf(BackendUnavailableError);
    expect(world.clock.mono() - startedAt).toBeLessThan(1100);
  });
});

describe("a release that stayed unknown", () => {
  it("is released when the second call finds that the first one did it", async () => {
    const world = new World();
    let deaf = true;
    const manager = world.manager({ ttl: 3000 }, async (step, run) => {
      const answer = await run();
      if (step === "release" && deaf) throw new DriverError("timeout", "unknown", "no answer");
      return answer;
    });
    const lost: unknown[] = [];
    manager.on("lost", (event) => lost.push(event));
    const lease = await manager.acquire("a");
    expect(await world.clock.settle(lease.release())).toBe("unknown");
    deaf = false;
    expect(await world.clock.settle(lease.release())).toBe("released");
    expect(lost).toEqual([]);
    expect(lease.state).toBe("released");
  });
});
