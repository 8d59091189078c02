import { describe, expect, it } from "vitest";
import {
  AcquireTimeoutError,
  BackendUnavailableError,
  DriverError,
  type LockEvents,
} from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { rejection, World } from "../fixtures/world.ts";

describe("a wait that is shorter than a request may take", () => {
  it("ends as unavailable when nothing has answered, and as a timeout when somebody holds the lock", async () => {
    const world = new World();
    const silent = world.manager({ ttl: "30s" }, async () => silence());
    const error = await world.clock.settle(rejection(silent.acquire("a", { wait: 800 })));
    expect(error).toBeInstanceOf(BackendUnavailableError);
    expect((error as Error).message).toContain("no answer within 800 ms");
    const holder = await world.manager().acquire("a");
    const answered = world.manager({ ttl: "30s" });
    const timeout = await world.clock.settle(rejection(answered.acquire("a", { wait: 800 })));
    expect(timeout).toBeInstanceOf(AcquireTimeoutError);
    await holder.release();
  });

  it("ends as a timeout when it waited for a holder of its own process, and the link fell silent at its end", async () => {
    const world = new World();
    let deaf = false;
    const manager = world.manager({ ttl: "30s" }, async (step, run) =>
      deaf && step === "attempt" ? await silence() : await run(),
    );
    const held = await manager.acquire("a");
    const waiting = rejection(manager.acquire("a", { wait: 1000, label: "another" }));
    await world.clock.advance(10);
    deaf = true;
    expect(await world.clock.settle(waiting)).toBeInstanceOf(AcquireTimeoutError);
    deaf = false;
    await held.release();
  });
});

describe("a release that is not answered", () => {
  it("holds the next waiter of its process up for a quarter of a second, not for as long as it goes on", async () => {
    const world = new World();
    let deaf = true;
    const manager = world.manager({ ttl: "30s" }, async (step, run) => {
      const answer = await run();
      return deaf && step === "release" ? await silence() : answer;
    });
    const held = await manager.acquire("a");
    const start = world.clock.mono();
    const releasing = held.release();
    const waiting = manager.acquire("a");
    const lease = await world.clock.settle(waiting);
    expect(world.clock.mono() - start).toBeLessThanOrEqual(250);
    expect(lease.state).toBe("held");
    deaf = false;
    await world.clock.settle(releasing);
    expect(lease.state).toBe("held");
    expect(await lease.release()).toBe("released");
  });
});

describe("a waiter that leaves", () => {
  it("does not give its place to one that came after others on other terms", async () => {
    const world = new World();
    const holder = await world.manager().acquire("a");
    const manager = world.manager();
    const leaving = new AbortController();
    const order: string[] = [];
    const take = (label: string, signal?: AbortSignal): void => {
      const options = signal === undefined ? { label } : { label, signal };
      void manager.acquire("a", options).then(
        async (lease) => {
          order.push(label);
          await lease.release();
        },
        () => undefined,
      );
    };
    take("x", leaving.signal);
    take("y");
    take("x");
    await world.clock.advance(100);
    leaving.abort(new Error("enough"));
    await world.clock.advance(100);
    await holder.release();
    await world.clock.advance(1000);
    expect(order).toEqual(["y", "x"]);
  });
});

describe("a queue of 10,000 waiters", () => {
  it("refuses the next one, and tells it as any refusal", async () => {
    const world = new World();
    const manager = world.manager();
    const held = await manager.acquire("a");
    const refused: LockEvents["refused"][] = [];
    for (let i = 0; i < 10_000; i += 1) manager.acquire("a", { wait: "1h" }).catch(() => undefined);
    manager.on("refused", (event) => refused.push(event));
    const error = await rejection(manager.acquire("a"));
    expect(error).toBeInstanceOf(BackendUnavailableError);
    expect(refused).toMatchObject([{ name: "a", waitedMs: 0, cause: error }]);
    await held.release();
    await world.clock.settle(manager.close());
  });
});

describe("an entry that could not be taken back", () => {
  it("is given back for as long as the backend may keep it, however short the ttl", async () => {
    const world = new World();
    const far = { kind: "busy", queued: true, blockedBy: "queue", holder: null } as const;
    let down = false;
    const returned: number[] = [];
    const manager = world.manager({ ttl: 1000 }, async (step, run) => {
      if (step === "release") returned.push(world.clock.mono());
      if (down) throw new DriverError("unavailable", "not-applied", "down");
      if (step === "attempt") return { ...far, askAgainMs: 20_000, keepEntryMs: 60_000 };
      return await run();
    });
    const waiting = rejection(manager.acquire("a", { wait: 100 }));
    await world.clock.advance(50);
    down = true;
    await world.clock.settle(waiting);
    const start = world.clock.mono();
    await world.clock.advance(50_000);
    down = false;
    const tries = returned.length;
    await world.clock.advance(10_000);
    expect(returned.length).toBe(tries + 1);
    expect((returned.at(-1) ?? 0) - start).toBeGreaterThan(49_000);
  });
});
