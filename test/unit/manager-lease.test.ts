import { describe, expect, it } from "vitest";
import { DriverError, LeaseLostError, LeaseReleasedError } from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { rejection, World } from "../fixtures/world.ts";

/** ttl 1000 has a margin of 60. */
const VALID_MS = 940;

describe("a lease's deadline", () => {
  it("counts from before the request, less the margin, and reading it needs no timer", async () => {
    const own = new World();
    const slow = own.manager({}, async (step, run) => {
      if (step === "attempt") await new Promise<void>((resolve) => own.clock.timer(100, resolve));
      return await run();
    });
    const lease = await own.clock.settle(slow.acquire("a"));
    expect(lease.remainingMs()).toBeCloseTo(VALID_MS - 100);
  });

  it("ends the lease exactly then without any network, and tells once", async () => {
    const world = new World();
    const manager = world.manager({ keepalive: "off" });
    const lost: number[] = [];
    manager.on("lost", (event) => lost.push(event.lateMs));
    const lease = await manager.acquire("a");
    const { signal } = lease;
    await world.clock.advance(VALID_MS - 1);
    expect([lease.state, signal.aborted, lost]).toEqual(["held", false, []]);
    await world.clock.advance(1);
    expect([lease.state, signal.aborted, lost]).toEqual(["lost", true, [0]]);
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
    expect(signal.reason).toMatchObject({ reason: "expired", lock: "a" });
    expect(() => {
      lease.assertHeld();
    }).toThrow(LeaseLostError);
    expect(await lease.release()).toBe("already-lost");
    await world.clock.advance(5000);
    expect(lost).toEqual([0]);
  });

  it("is seen by the first read after a blocked event loop, in the same tick (B67)", async () => {
    for (const read of ["signal", "state", "remainingMs", "assertHeld"] as const) {
      const world = new World();
      const lease = await world.manager().acquire("a");
      const before = lease.signal;
      world.clock.stall(2000);
      if (read === "signal") expect(lease.signal.aborted).toBe(true);
      if (read === "state") expect(lease.state).toBe("lost");
      if (read === "remainingMs") expect(lease.remainingMs()).toBe(0);
      if (read === "assertHeld")
        expect(() => {
          lease.assertHeld();
        }).toThrow(LeaseLostError);
      expect(before.aborted).toBe(true);
    }
  });

  it("counts a suspend of the host (S38)", async () => {
    const world = new World();
    const lease = await world.manager().acquire("a");
    world.clock.suspend(3000);
    expect(lease.state).toBe("lost");
  });

  it("is told within a second after the host woke, although timers stood still meanwhile", async () => {
    const world = new World();
    const manager = world.manager({ ttl: "1m" });
    const told: number[] = [];
    manager.on("lost", () => told.push(world.clock.mono()));
    const lease = await manager.acquire("a");
    await world.clock.advance(5000);
    world.clock.suspend(600_000);
    const woke = world.clock.mono();
    await world.clock.advance(30_000);
    expect(told).toHaveLength(1);
    expect((told[0] ?? Infinity) - woke).toBeLessThanOrEqual(1000);
    expect(lease.state).toBe("lost");
  });

  it("costs a process without a lease no timer, and one with a lease none that keeps it alive", async () => {
    const world = new World();
    const manager = world.manager({ ttl: "1h" });
    const lease = await manager.acquire("a");
    await world.clock.advance(10_000);
    expect(world.clock.pendingRefs).toBe(0);
    expect(world.clock.nextMs).toBeLessThanOrEqual(1000);
    await lease.release();
    // What is left over fires once, and finds nothing to do.
    await world.clock.advance(6000);
    expect(world.clock.nextMs ?? Infinity).toBeGreaterThan(60_000);
  });

  it("stands a wall clock that jumps 10 minutes: one early renewal after a step forward, none after one back (S57)", async () => {
    const world = new World();
    const steps: string[] = [];
    const manager = world.manager({}, async (step, run) => {
      steps.push(step);
      return await run();
    });
    const told: string[] = [];
    for (const event of ["jeopardy", "safe", "lost"] as const)
      manager.on(event, () => told.push(event));
    const lease = await manager.acquire("a");
    world.clock.step(-600_000);
    expect(lease.state).toBe("held");
    await world.clock.advance(10);
    expect(steps.filter((step) => step === "renew")).toEqual([]);
    world.clock.step(600_000);
    expect(lease.remainingMs()).toBeGreaterThan(900);
    await world.clock.advance(10);
    expect(steps.filter((step) => step === "renew")).toEqual(["renew"]);
    expect(told).toEqual(["jeopardy", "safe"]);
    expect(lease.state).toBe("held");
  });

  it("is not eaten by waiting: a lease got after a long wait is whole (B05)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const first = await a.acquire("a");
    const second = b.acquire("a", { wait: "10s" });
    await world.clock.advance(3000);
    await first.release();
    const lease = await world.clock.settle(second);
    expect(lease.remainingMs()).toBeGreaterThan(800);
    await world.clock.advance(3000);
    expect(lease.state).toBe("held");
  });
});

describe("keepalive", () => {
  it("renews at a third of the ttl, for as long as it is held", async () => {
    const world = new World();
    const renewals: number[] = [];
    const manager = world.manager({ ttl: "30s" }, async (step, run) => {
      if (step === "renew") renewals.push(world.clock.mono());
      return await run();
    });
    const start = world.clock.mono();
    const lease = await manager.acquire("a");
    await world.clock.advance(100_000);
    expect(lease.state).toBe("held");
    expect(renewals.length).toBeGreaterThanOrEqual(9);
    expect((renewals[0] ?? 0) - start).toBeGreaterThan(9600);
    expect((renewals[0] ?? 0) - start).toBeLessThanOrEqual(10_000);
    await lease.release();
    await world.clock.advance(100_000);
    expect(renewals.length).toBeLessThanOrEqual(11);
  });

  it("retries a failed renewal until the deadline, and is safe again after one success (B20)", async () => {
    const world = new World();
    let failing = 0;
    const manager = world.manager({}, async (step, run) => {
      if (step === "renew" && failing > 0) {
        failing -= 1;
        throw new DriverError("unavailable", "unknown", "connection reset");
      }
      return await run();
    });
    const told: string[] = [];
    for (const event of ["jeopardy", "safe", "lost"] as const)
      manager.on(event, () => told.push(event));
    const lease = await manager.acquire("a");
    failing = 3;
    await world.clock.advance(3000);
    expect(lease.state).toBe("held");
    expect(told).toEqual(["jeopardy", "safe"]);
  });

  it("ends as unreachable at the deadline when the link went silent, although a renewal is in flight (S19)", async () => {
    const world = new World();
    let silent = false;
    const manager = world.manager({}, async (step, run) =>
      silent && step === "renew" ? await silence() : await run(),
    );
    const reasons: unknown[] = [];
    manager.on("lost", ({ reason }) => reasons.push(reason));
    const lease = await manager.acquire("a");
    const start = world.clock.mono();
    silent = true;
    await world.clock.advance(VALID_MS);
    expect(reasons).toEqual(["unreachable"]);
    expect(lease.state).toBe("lost");
    expect(world.clock.mono() - start).toBe(VALID_MS);
  });

  it("never believes a renewal that comes back after the deadline", async () => {
    const world = new World();
    let late = false;
    const manager = world.manager({ requestTimeout: "1h" }, async (step, run) => {
      const answer = await run();
      if (step === "renew" && late)
        await new Promise<void>((resolve) => world.clock.timer(5000, resolve));
      return answer;
    });
    const lease = await manager.acquire("a");
    late = true;
    await world.clock.advance(10_000);
    expect(lease.state).toBe("lost");
  });

  it("reports a record that vanished or was taken as lost at the next renewal, and never makes it again (B07, S16)", async () => {
    const world = new World();
    const manager = world.manager({ ttl: 3000 });
    const lease = await manager.acquire("a");
    await world.manager().revoke("a", { reason: "test", now: true });
    const other = await world.manager().acquire("a", { wait: 0 });
    await world.clock.advance(1000);
    expect(lease.signal.reason).toMatchObject({ reason: "revoked" });
    expect(other.token).toBeGreaterThan(lease.token);
    expect(other.state).toBe("held");
  });

  it("goes out in batches of at most 500, and splits a batch that fails as a whole", async () => {
    const world = new World();
    const sizes: number[] = [];
    const manager = world.manager({ ttl: "30s" }, async (step, run, args) => {
      if (step === "renew") {
        const { length } = args[0] as unknown[];
        sizes.push(length);
        if (length > 100) throw new DriverError("unavailable", "unknown", "too large a packet");
      }
      return await run();
    });
    const leases = await Promise.all(
      Array.from({ length: 1200 }, async (_, i) => manager.acquire(`n${i}`)),
    );
    await world.clock.advance(60_000);
    expect(Math.max(...sizes)).toBe(500);
    expect(leases.every((lease) => lease.state === "held")).toBe(true);
  });

  it("with `progress` goes on only as long as the job reports some", async () => {
    const world = new World();
    const lease = await world.manager().acquire("a", { keepalive: "progress" });
    for (let i = 0; i < 10; i += 1) {
      await world.clock.advance(300);
      lease.progress();
    }
    expect(lease.state).toBe("held");
    await world.clock.advance(2000);
    expect(lease.state).toBe("lost");
  });

  it("does not let a short lease wait as long for an answer as a long one may", async () => {
    const world = new World();
    let silent = false;
    const manager = world.manager({ ttl: "60s" }, async (step, run) =>
      silent && step === "renew" ? await silence() : await run(),
    );
    await manager.acquire("long");
    const short = await manager.acquire("short", { ttl: "2s" });
    silent = true;
    // Everything is renewed at once.
    world.clock.step(600_000);
    expect(short.state).toBe("held");
    await world.clock.advance(1300);
    silent = false;
    await world.clock.advance(1000);
    expect(short.state).toBe("held");
  });

  it("stops at the longest hold, without a release: the lease lapses by its ttl (B98)", async () => {
    const world = new World();
    const manager = world.manager();
    const work = rejection(manager.request("a", { maxHold: 2000 }, async () => silence()));
    void work;
    await world.clock.advance(1999);
    expect((await manager.inspect("a")).held).toHaveLength(1);
    await world.clock.advance(1);
    const other = world.manager();
    expect(await other.tryAcquire("a")).toBeNull();
    const next = world.clock.settle(other.acquire("a"));
    expect((await next).takenOver).toBe(true);
    expect(world.clock.mono()).toBeLessThanOrEqual(new World().clock.mono() + 3100);
  });
});

describe("renew and ensure", () => {
  it("renews for another ttl, and a shorter one ends the lease sooner", async () => {
    const world = new World();
    const manager = world.manager({ keepalive: "off", ttl: "30s" });
    const lease = await manager.acquire("a");
    await world.clock.advance(20_000);
    await lease.renew();
    expect(lease.remainingMs()).toBeGreaterThan(29_000);
    await lease.renew("2s");
    expect(lease.remainingMs()).toBeLessThan(2000);
    await world.clock.advance(2000);
    expect(lease.state).toBe("lost");
    expect(await rejection(lease.renew())).toBeInstanceOf(LeaseLostError);
  });

  it("believes the shorter of two ttls while it does not know which the backend has", async () => {
    const world = new World();
    const manager = world.manager({ keepalive: "off", ttl: "30s" }, async (step, run) => {
      const answer = await run();
      if (step === "renew") throw new DriverError("timeout", "unknown", "the reply was lost");
      return answer;
    });
    const lease = await manager.acquire("a");
    await rejection(lease.renew("1s"));
    expect(lease.remainingMs()).toBeLessThanOrEqual(VALID_MS);
  });

  it("ensures a remaining time, and says when the ttl can never give it", async () => {
    const world = new World();
    const lease = await world.manager({ keepalive: "off" }).acquire("a");
    await world.clock.advance(500);
    await lease.ensure(900);
    expect(lease.remainingMs()).toBeGreaterThanOrEqual(900);
    await expect(lease.ensure("5s")).rejects.toThrow(/atLeast/);
    const careful = await world.manager({ marginRatio: 0.2 }).acquire("b", { ttl: "10s" });
    await expect(careful.ensure(8000)).rejects.toThrow(/atLeast/);
    await careful.ensure(7700);
    await lease.release();
    expect(await rejection(lease.ensure(10))).toBeInstanceOf(LeaseReleasedError);
  });
});

describe("release", () => {
  it("gives the same answer twice, and the lease is over from the call on", async () => {
    const world = new World();
    const lease = await world.manager().acquire("a");
    const releasing = lease.release();
    expect(lease.state).toBe("released");
    expect([await releasing, await lease.release()]).toEqual(["released", "released"]);
    expect(lease.remainingMs()).toBe(0);
    expect(lease.signal.aborted).toBe(false);
    expect(() => {
      lease.assertHeld();
    }).toThrow(LeaseReleasedError);
  });

  it("is released when a retry after a lost reply finds nothing (S07)", async () => {
    const world = new World();
    let lose = true;
    const manager = world.manager({}, async (step, run) => {
      const answer = await run();
      if (step === "release" && lose) {
        lose = false;
        throw new DriverError("timeout", "unknown", "the reply was lost");
      }
      return answer;
    });
    const lease = await manager.acquire("a");
    expect(await world.clock.settle(lease.release())).toBe("released");
  });

  it("is released when a link that fell silent swallowed the first reply: a second try finds that out", async () => {
    const world = new World();
    let swallow = true;
    const manager = world.manager({ ttl: 3000 }, async (step, run) => {
      const answer = await run();
      if (step !== "release" || !swallow) return answer;
      swallow = false;
      return await silence();
    });
    const lease = await manager.acquire("a");
    const start = world.clock.mono();
    expect(await world.clock.settle(lease.release())).toBe("released");
    expect(world.clock.mono() - start).toBeLessThanOrEqual(1100);
  });

  it("is already lost when the first attempt finds no record of ours, before the deadline", async () => {
    const world = new World();
    const manager = world.manager({ ttl: "30s" });
    const lease = await manager.acquire("a");
    await world.manager().revoke("a", { reason: "test", now: true });
    expect(await lease.release()).toBe("already-lost");
    expect(lease.state).toBe("lost");
  });

  it("says unknown when nothing answers, frees the lock in the background, and a second call tries again", async () => {
    const world = new World();
    let silent = false;
    const manager = world.manager({ ttl: 3000 }, async (step, run) =>
      silent && step === "release" ? await silence() : await run(),
    );
    const lease = await manager.acquire("a");
    silent = true;
    expect(await world.clock.settle(lease.release())).toBe("unknown");
    silent = false;
    expect(await world.clock.settle(lease.release())).toBe("released");
    expect(await world.manager().tryAcquire("a")).not.toBeNull();
  });

  it("ignores a renewal that was on its way: no loss, whatever the order (B08)", async () => {
    const world = new World();
    const held: (() => void)[] = [];
    const manager = world.manager({}, async (step, run) => {
      if (step === "renew") await new Promise<void>((resolve) => held.push(resolve));
      return await run();
    });
    const lost: unknown[] = [];
    manager.on("lost", (event) => lost.push(event));
    const lease = await manager.acquire("a");
    await world.clock.advance(350);
    expect(held).toHaveLength(1);
    expect(await lease.release()).toBe("released");
    held[0]?.();
    await world.clock.advance(3000);
    expect(lost).toEqual([]);
  });

  it("disposes without throwing, also a lost lease", async () => {
    const world = new World();
    const manager = world.manager({ keepalive: "off" });
    {
      await using lease = await manager.acquire("a");
      expect(lease.state).toBe("held");
    }
    expect((await manager.inspect("a")).held).toEqual([]);
    {
      await using lease = await manager.acquire("a");
      await world.clock.advance(2000);
      expect(lease.state).toBe("lost");
    }
  });
});

describe("what a lease shows", () => {
  it("is plain data with decimal tokens, and no secret", async () => {
    const world = new World();
    const lease = await world
      .manager({ holder: { label: "job", metadata: { build: "7" } } })
      .acquire("a");
    const json = JSON.parse(JSON.stringify(lease)) as Record<string, unknown>;
    expect(json).toMatchObject({
      name: "a",
      mode: "exclusive",
      state: "held",
      takenOver: false,
      previousToken: null,
    });
    expect(json["token"]).toBe(lease.token.toString());
    expect(json["holder"]).toMatchObject({ label: "job", metadata: { build: "7" } });
    expect(lease.grantId).toMatch(/^[\w-]{27}$/);
    expect(lease.scope).toMatch(/^[\w-]{27}$/);
  });

  it("tells a successor about its predecessor", async () => {
    const world = new World();
    const [a, b] = [world.manager({ keepalive: "off" }), world.manager()];
    const first = await a.acquire("a");
    const second = await world.clock.settle(b.acquire("a"));
    expect([second.takenOver, second.previousToken]).toEqual([true, first.token]);
    expect(second.token).toBeGreaterThan(first.token);
    await second.release();
    const third = await a.acquire("a");
    expect([third.takenOver, third.previousToken]).toEqual([false, second.token]);
  });

  it("has one scope per backend, namespace and name", async () => {
    const world = new World();
    const scopes = await Promise.all(
      [world.manager(), world.manager({ namespace: "b" }), world.manager({ backendId: "c" })].map(
        async (manager) => {
          const lease = await manager.acquire("a", { mode: "shared" });
          return lease.scope;
        },
      ),
    );
    expect(new Set(scopes).size).toBe(3);
  });

  it("has no token as a permit", async () => {
    const world = new World();
    const permit = await world.manager().semaphore("a", { permits: 2 }).acquire();
    expect("token" in permit).toBe(false);
    expect(() => permit.sequencer).toThrow(/no sequencer/);
  });
});
