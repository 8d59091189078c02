import { describe, expect, it } from "vitest";
import { LeaseLostError } from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { World } from "../fixtures/world.ts";

type Manager = ReturnType<World["manager"]>;
type Lease = Awaited<ReturnType<Manager["acquire"]>>;

type Options = Parameters<Manager["acquire"]>[1];

/** Two acquires of one manager that waited together, so that the first grant has a token for the second as well. */
async function pair(
  world: World,
  manager: Manager,
  [a, b]: readonly [Options, Options],
): Promise<{ readonly first: Lease; readonly waiting: Promise<Lease> }> {
  const holder = await world.manager().acquire("a");
  const taking = manager.acquire("a", a);
  const waiting = manager.acquire("a", b);
  await world.clock.advance(10);
  await holder.release();
  return { first: await world.clock.settle(taking), waiting };
}

describe("a lease that was handed on inside the process", () => {
  it("keeps its own longest hold", async () => {
    const world = new World();
    const manager = world.manager({ ttl: "30s" });
    const { first, waiting } = await pair(world, manager, [{}, { maxHold: 500 }]);
    await first.release();
    const lease = await world.clock.settle(waiting);
    await world.clock.advance(600);
    expect(lease.state).toBe("lost");
    expect(lease.signal.reason).toMatchObject({ reason: "max-hold" });
  });

  it("keeps its own longest hold also when it takes the place of a waiter that left", async () => {
    const world = new World();
    const holder = await world.manager().acquire("a");
    const manager = world.manager({ ttl: "30s" });
    const leaving = new AbortController();
    manager.acquire("a", { signal: leaving.signal }).catch(() => undefined);
    const waiting = manager.acquire("a", { maxHold: 500 });
    await world.clock.advance(100);
    leaving.abort();
    await world.clock.advance(300);
    await holder.release();
    const lease = await world.clock.settle(waiting);
    await world.clock.advance(600);
    expect(lease.state).toBe("lost");
  });

  it("is renewed on its own terms, and only its own job's progress counts", async () => {
    const world = new World();
    const manager = world.manager({ ttl: 1000 });
    const terms = { keepalive: "progress" } as const;
    const { first, waiting } = await pair(world, manager, [terms, terms]);
    await first.release();
    const lease = await world.clock.settle(waiting);
    for (let i = 0; i < 30; i += 1) {
      first.progress();
      await world.clock.advance(100);
    }
    expect(lease.state).toBe("lost");
    await world.clock.advance(1000);

    const mixed = await pair(world, manager, [{}, { keepalive: "off" }]);
    await mixed.first.release();
    const off = await world.clock.settle(mixed.waiting);
    await world.clock.advance(1000);
    expect(off.state).toBe("lost");
  });

  it("does not inherit the ttl that its predecessor renewed for", async () => {
    for (const ttl of ["10m", 100]) {
      const world = new World();
      const manager = world.manager({ ttl: 1000 });
      const { first, waiting } = await pair(world, manager, [{}, {}]);
      await first.renew(ttl);
      await first.release();
      const lease = await world.clock.settle(waiting);
      expect(lease.remainingMs()).toBeGreaterThan(900);
      expect(lease.remainingMs()).toBeLessThan(1000);
    }
  });

  it("is not one whose predecessor was in jeopardy: the backend is told", async () => {
    const world = new World();
    const steps: string[] = [];
    const manager = world.manager({}, async (step, run) => {
      steps.push(step);
      return step === "renew" ? await silence() : await run();
    });
    const { first, waiting } = await pair(world, manager, [{}, {}]);
    world.clock.step(600_000);
    expect(first.state).toBe("held");
    await world.clock.advance(1);
    expect(first.state).toBe("jeopardy");
    await world.clock.settle(first.release());
    expect(steps).toContain("release");
    const lease = await world.clock.settle(waiting);
    expect(lease.grantId).not.toBe(first.grantId);
  });

  it("leaves what its predecessor says of itself as it was", async () => {
    const world = new World();
    await world.manager({ keepalive: "off" }).acquire("a");
    const manager = world.manager();
    const [taking, waiting] = [manager.acquire("a"), manager.acquire("a")];
    const first = await world.clock.settle(taking);
    expect(first.takenOver).toBe(true);
    await first.release();
    const second = await world.clock.settle(waiting);
    expect([first.takenOver, second.takenOver]).toEqual([true, false]);
  });
});

describe("a waiter on other terms behind a hand-off", () => {
  it("queues at the backend, although the place there went with the one that was served", async () => {
    const world = new World();
    const manager = world.manager({ ttl: "30s" });
    const holder = await world.manager().acquire("a");
    const [one, two] = [manager.acquire("a"), manager.acquire("a")];
    const reader = manager.acquire("a", { mode: "shared" });
    await world.clock.advance(10);
    await holder.release();
    const first = await world.clock.settle(one);
    await world.clock.advance(100);
    await first.release();
    const second = await world.clock.settle(two);
    await world.clock.advance(100);
    expect((await manager.inspect("a")).pending).toHaveLength(1);
    await second.release();
    expect(await world.clock.settle(reader)).toMatchObject({ mode: "shared" });
  });
});

describe("a store with a longest ttl", () => {
  it("is renewed in time, although more was asked for", async () => {
    const world = new World();
    const manager = world.manager({ ttl: 1000 }, async (step, run, args) => {
      if (step !== "renew") return await run();
      const [grants] = args as [readonly { readonly grantId: string }[]];
      await run();
      return grants.map(() => ({ kind: "renewed", ttlMs: 1000 }));
    });
    const lease = await manager.acquire("a");
    await lease.renew("1h");
    await world.clock.advance(10_000);
    expect(lease.state).toBe("held");
    expect(() => {
      lease.assertHeld();
    }).not.toThrow(LeaseLostError);
  });
});
