/** What went wrong with held locks in the field, and what happens here; docs/field-cases.md has the whole list. */
import { describe, expect, it } from "vitest";
import { DriverError } from "../../src/core/driver.ts";
import {
  AcquireTimeoutError,
  BackendUnavailableError,
  InvalidArgumentError,
  LeaseLostError,
  type LostReason,
} from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { rejection, World } from "../fixtures/world.ts";

async function down(): Promise<never> {
  throw new DriverError("unavailable", "not-applied", "connection refused");
}

describe("losing a lease", () => {
  it("is told apart from never having had one, and from a backend that is down (B02)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const lease = await a.acquire("a");
    const never = await world.clock.settle(rejection(b.acquire("a", { wait: 200 })));
    await b.revoke("a", { reason: "test", now: true });
    await world.clock.advance(400);
    const lost = lease.signal.reason as unknown;
    const noBackend = await world.clock.settle(rejection(world.manager({}, down).acquire("a")));
    expect(never).toBeInstanceOf(AcquireTimeoutError);
    expect(lost).toBeInstanceOf(LeaseLostError);
    expect(noBackend).toBeInstanceOf(BackendUnavailableError);
    const codes = [never, lost, noBackend].map((error) => (error as { code: string }).code);
    expect(new Set(codes).size).toBe(3);
  });

  it("gives the reason, a different one for each way (B56)", async () => {
    const reasons: LostReason[] = [];
    const lose = async (how: (world: World) => Promise<void>, silent = false): Promise<void> => {
      const world = new World();
      const manager = world.manager({ ttl: 3000 }, async (step, run) =>
        step === "renew" && silent ? await silence() : await run(),
      );
      const lease = await manager.acquire("a", { maxHold: "1m" });
      manager.on("lost", ({ reason }) => reasons.push(reason));
      await how(world);
      expect(lease.state).toBe("lost");
    };
    await lose(async ({ clock }) => {
      await clock.advance(3000);
    }, true);
    await lose(async (world) => {
      await world.manager().revoke("a", { reason: "test", now: true });
      await world.clock.advance(1000);
    });
    await lose(async ({ clock }) => {
      await clock.advance(60_000);
    });
    await lose(async ({ clock }) => {
      clock.suspend(10_000);
      await clock.advance(1000);
    });
    expect(reasons).toEqual(["unreachable", "revoked", "max-hold", "expired"]);
  });

  it("is told once and asked about no more (B38)", async () => {
    const world = new World();
    let renewals = 0;
    const manager = world.manager({ ttl: 900 }, async (step, run) => {
      if (step === "renew") renewals += 1;
      return await run();
    });
    let told = 0;
    manager.on("lost", () => (told += 1));
    await manager.acquire("a");
    await world.manager().revoke("a", { reason: "test", now: true });
    await world.clock.advance(60_000);
    expect([told, renewals]).toEqual([1, 1]);
  });

  it("does not come from being looked at (B56)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const lease = await a.acquire("a");
    for (let i = 0; i < 500; i += 1) {
      await b.inspect("a");
      await b.query();
      await world.clock.advance(10);
    }
    expect(lease.state).toBe("held");
  });

  it("stays final when the same process gets the lock again: another token, another signal (B44)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const first = await a.acquire("a", { keepalive: "off" });
    const { signal } = first;
    await world.clock.advance(1000);
    const between = await b.acquire("a");
    await between.release();
    const again = await a.acquire("a");
    expect(again.token).toBeGreaterThan(between.token);
    expect(again.previousToken).toBe(between.token);
    expect([signal.aborted, first.state, again.signal.aborted]).toEqual([true, "lost", false]);
    // The old one's clean-up does not reach the new one.
    expect(await first.release()).toBe("already-lost");
    expect((await b.inspect("a")).token).toBe(again.token);
  });

  it("ends that lease's keepalive only: the next lease on the name is renewed from its start (B13)", async () => {
    const world = new World();
    const manager = world.manager({ ttl: 500 });
    const lost = await manager.acquire("a");
    await world.manager().revoke("a", { reason: "test", now: true });
    await world.clock.advance(200);
    expect(lost.state).toBe("lost");
    const next = await manager.acquire("a");
    await world.clock.advance(5000);
    expect(next.state).toBe("held");
    expect((await manager.inspect("a")).token).toBe(next.token);
  });

  it("is found by whoever looks before using a lease that was kept too long (B100)", async () => {
    const world = new World();
    const lease = await world.manager().acquire("a", { keepalive: "off", ttl: 300 });
    await world.clock.advance(500);
    let used = false;
    const use = (): void => {
      lease.assertHeld();
      used = true;
    };
    expect(use).toThrow(LeaseLostError);
    expect(await rejection(lease.ensure(100))).toBeInstanceOf(LeaseLostError);
    expect(used).toBe(false);
  });
});

describe("an acquire", () => {
  it("refuses a ttl that no renewal could keep, and renews the shortest without haste (B04)", async () => {
    for (const ttl of [1, 5, 10, 49])
      expect(await rejection(new World().manager().acquire("a", { ttl }))).toBeInstanceOf(
        InvalidArgumentError,
      );
    const world = new World();
    let renewals = 0;
    const manager = world.manager({}, async (step, run) => {
      if (step === "renew") renewals += 1;
      return await run();
    });
    const work = manager.request("a", { ttl: 50 }, async () => {
      await new Promise<void>((done) => world.clock.timer(300, done));
      return "done";
    });
    expect(await world.clock.settle(work)).toBe("done");
    expect(renewals).toBeGreaterThan(0);
    expect(renewals).toBeLessThanOrEqual(300 / (50 / 3) + 2);
  });

  it("never becomes a lease whose time ran out on the way back (B46, B35)", async () => {
    const world = new World();
    let slow = true;
    const manager = world.manager({ requestTimeout: "1h" }, async (step, run) => {
      const answer = await run();
      if (step === "attempt" && slow) {
        slow = false;
        await new Promise<void>((done) => world.clock.timer(2000, done));
      }
      return answer;
    });
    const start = world.clock.mono();
    const lease = await world.clock.settle(manager.acquire("a"));
    expect(world.clock.mono() - start).toBeGreaterThanOrEqual(2000);
    expect(lease.remainingMs()).toBeGreaterThan(900);
    expect((await manager.inspect("a")).held.map(({ grantId }) => grantId)).toEqual([
      lease.grantId,
    ]);
  });

  it("that fails runs nothing, and leaves the next one of its process free to succeed (B50, B71)", async () => {
    const world = new World();
    let working = false;
    const manager = world.manager({}, async (_step, run) => (working ? await run() : await down()));
    let ran = 0;
    const body = (): number => (ran += 1);
    for (const options of [{ wait: 200 }, { wait: 0 }, { mode: "shared" as const, wait: 100 }])
      expect(
        await world.clock.settle(rejection(manager.request("a", options, body))),
      ).toBeInstanceOf(BackendUnavailableError);
    expect(
      await world.clock.settle(rejection(manager.request("a", { ifAvailable: true }, body))),
    ).toBeInstanceOf(BackendUnavailableError);
    expect(ran).toBe(0);
    working = true;
    await world.clock.settle(manager.request("a", body));
    expect(ran).toBe(1);
  });

  it("starts clean each time, with one ttl after the other run out (B74)", async () => {
    const world = new World();
    const [manager, others] = [world.manager(), world.manager()];
    for (let i = 0; i < 5; i += 1) {
      const lease = await manager.acquire("a", { ttl: 200, keepalive: "off" });
      expect(await lease.release()).toBe("released");
      await world.clock.advance(300);
    }
    const callers = Array.from({ length: 20 }, async (_, i) => {
      const lease = await (i % 2 === 0 ? manager : others).acquire("a");
      return await lease.release();
    });
    expect(new Set(await world.clock.settle(Promise.all(callers)))).toEqual(new Set(["released"]));
  });

  it("has a lease of its own, however many come from one manager (B118)", async () => {
    const world = new World();
    const manager = world.manager();
    const seen = new Set<string>();
    for (let i = 0; i < 3; i += 1) {
      const lease = await manager.acquire("a");
      seen.add(lease.grantId);
      expect(await lease.release()).toBe("released");
      expect(lease.state).toBe("released");
    }
    expect(seen.size).toBe(3);
    const first = await manager.acquire("a");
    const second = manager.acquire("a");
    expect(await world.settled(second)).toBe(false);
    await first.release();
    expect((await second).state).toBe("held");
    expect(first.state).toBe("released");
  });

  it("that gave up says for how long it waited, for what and for whom (B62, B107)", async () => {
    const world = new World();
    await world.manager({ holder: { label: "nightly" } }).acquire("jobs/report");
    const manager = world.manager();
    const start = world.clock.mono();
    const work = rejection(manager.acquire("jobs/report", { wait: 25_000 }));
    const error = (await world.clock.settle(work)) as AcquireTimeoutError;
    expect(world.clock.mono() - start).toBe(25_000);
    expect(error.waitedMs).toBe(25_000);
    for (const part of ["jobs/report", "25000 ms", "nightly"])
      expect(error.message).toContain(part);
    expect(error.message).not.toMatch(/unavailable|unreachable|connect/i);
    // A manager that closes is another story.
    const waiting = rejection(manager.acquire("jobs/report"));
    await world.clock.drain();
    await world.clock.settle(manager.close());
    expect(await waiting).toMatchObject({ code: "ERR_MANAGER_CLOSED" });
  });
});

describe("an operator", () => {
  it("who frees a lock wakes the next waiter, and only that one (B23)", async () => {
    const world = new World();
    const [a, b, c] = [world.manager({ ttl: "60s" }), world.manager(), world.manager()];
    const held = await a.acquire("a");
    const second = b.acquire("a");
    await world.clock.drain();
    const third = c.acquire("a");
    await world.clock.drain();
    await world.manager().revoke("a", { reason: "stuck" });
    await world.clock.advance(100);
    expect([await world.settled(second), await world.settled(third)]).toEqual([true, false]);
    expect((await second).token).toBeGreaterThan(held.token);
    await world.clock.advance(20_000);
    expect(held.signal.reason).toMatchObject({ reason: "revoked" });
  });
});

describe("tries and waits that come to nothing", () => {
  it("leave no waiter, no timer and nothing at the backend (B34, B37)", async () => {
    const world = new World();
    const [holder, manager] = [world.manager({ keepalive: "off", ttl: "1h" }), world.manager()];
    await holder.acquire("a");
    const before = world.clock.pending;
    for (let i = 0; i < 1000; i += 1) expect(await manager.tryAcquire("a")).toBeNull();
    for (let i = 0; i < 100; i += 1)
      await world.clock.settle(rejection(manager.acquire("a", { wait: 50 })));
    const { pending, held } = await manager.inspect("a");
    expect([pending.length, held.length]).toEqual([0, 1]);
    expect(world.clock.pending).toBeLessThanOrEqual(before + 2);
  });
});
