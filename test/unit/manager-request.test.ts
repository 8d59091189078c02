import { describe, expect, it } from "vitest";
import { memoryGuard, memoryStore } from "../../src/guards/memory/index.ts";
import {
  AcquireTimeoutError,
  DeadlockError,
  InvalidArgumentError,
  LeaseLostError,
  ManagerClosedError,
  StaleTokenError,
} from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { rejection, World } from "../fixtures/world.ts";

describe("request", () => {
  it("resolves to the body's result and releases; the body's error wins", async () => {
    const manager = new World().manager();
    expect(await manager.request("a", () => 7)).toBe(7);
    expect(await manager.request("a", { ttl: "5s" }, async (lease) => lease.name)).toBe("a");
    const boom = new Error("boom");
    expect(await rejection(manager.request("a", async () => Promise.reject(boom)))).toBe(boom);
    expect(
      await rejection(
        manager.request("a", () => {
          throw boom;
        }),
      ),
    ).toBe(boom);
    expect((await manager.inspect("a")).held).toEqual([]);
  });

  it("rejects with what the body came to when the lease was lost meanwhile (B116)", async () => {
    const world = new World();
    const manager = world.manager();
    const late = async (): Promise<number> => {
      world.clock.stall(2000);
      return 42;
    };
    const lost = await rejection(manager.request("a", late));
    expect(lost).toBeInstanceOf(LeaseLostError);
    expect(lost).toMatchObject({ reason: "expired", outcome: { value: 42 } });
    const boom = new Error("boom");
    const both = await rejection(
      manager.request("b", async () => {
        world.clock.stall(2000);
        throw boom;
      }),
    );
    expect(both).toMatchObject({ code: "ERR_LEASE_LOST", outcome: { error: boom } });
  });

  it("rejects with the very error when the body rethrows the signal's reason", async () => {
    const world = new World();
    let reason: unknown;
    const error = await rejection(
      world.manager().request("a", async (lease) => {
        world.clock.stall(2000);
        reason = lease.signal.reason;
        lease.signal.throwIfAborted();
      }),
    );
    expect(error).toBe(reason);
  });

  it("rejects at once after a loss, without seconds of trying to release (B104)", async () => {
    const world = new World();
    const steps: string[] = [];
    const manager = world.manager({}, async (step, run) => {
      steps.push(step);
      return await run();
    });
    await rejection(
      manager.request("a", async () => {
        world.clock.stall(2000);
      }),
    );
    expect(steps).not.toContain("release");
  });

  it("resolves although the release stays unknown, and rejects when the release finds the record gone", async () => {
    const world = new World();
    const silent = world.manager({}, async (step, run) =>
      step === "release" ? await silence() : await run(),
    );
    expect(await world.clock.settle(silent.request("a", () => 7))).toBe(7);
    const manager = world.manager();
    const error = await rejection(
      manager.request("b", async () => {
        await world.manager().revoke("b", { reason: "test", now: true });
        return 8;
      }),
    );
    expect(error).toMatchObject({ code: "ERR_LEASE_LOST", outcome: { value: 8 } });
  });

  it("respects a body that released or kept its lease itself", async () => {
    const manager = new World().manager();
    expect(await manager.request("a", async (lease) => lease.release())).toBe("released");
  });
});

describe("a request inside a request on the same name (B109)", () => {
  it("is a deadlock at once, or the same lease with `reentrant`", async () => {
    const manager = new World().manager();
    const nested = manager.request("a", async () => manager.request("a", () => 1));
    expect(await rejection(nested)).toBeInstanceOf(DeadlockError);
    const deep = manager.request("a", async () =>
      manager.request("b", async () => manager.request("a", () => 1)),
    );
    expect(await rejection(deep)).toBeInstanceOf(DeadlockError);
    const same = await manager.request("a", async (outer) =>
      manager.request("a", { reentrant: true }, (inner) => inner === outer),
    );
    expect(same).toBe(true);
    expect((await manager.inspect("a")).held).toEqual([]);
    expect(
      await manager.request("a", async () => manager.request("a", { ifAvailable: true }, (x) => x)),
    ).toBeNull();
  });

  it("refuses an upgrade from shared to exclusive, and lets readers nest (B112)", async () => {
    const manager = new World().manager();
    const upgrade = manager.request("a", { mode: "shared" }, async () =>
      manager.request("a", () => 1),
    );
    expect(await rejection(upgrade)).toBeInstanceOf(DeadlockError);
    const readers = manager.request("a", { mode: "shared" }, async () =>
      manager.request("a", { mode: "shared" }, () => "both"),
    );
    expect(await readers).toBe("both");
  });

  it("is no deadlock in two parallel tasks, nor once the outer lease is over", async () => {
    const manager = new World().manager();
    let inside = 0;
    const task = async (): Promise<void> =>
      manager.request("a", async () => {
        inside += 1;
        expect(inside).toBe(1);
        await Promise.resolve();
        inside -= 1;
      });
    await Promise.all([task(), task()]);
    const after = manager.request("a", async (lease) => {
      await lease.release();
      return await manager.request("a", () => "again");
    });
    expect(await after).toBe("again");
  });

  it("is not looked for with `detectReentry: false`", async () => {
    const world = new World();
    const manager = world.manager({ detectReentry: false });
    const nested = manager.request("a", async () => manager.request("a", { wait: 100 }, () => 1));
    expect(await world.clock.settle(rejection(nested))).toBeInstanceOf(AcquireTimeoutError);
  });
});

describe("a nested request with a guard", () => {
  it("runs in the guard's transaction under the outer lease", async () => {
    const world = new World();
    const store = memoryStore<bigint>();
    const guard = { guard: memoryGuard(), db: store, resource: "x" };
    const manager = world.manager();
    const tokens = await manager.request("a", async (outer) => {
      const inner = await manager.request("a", { reentrant: true, guard }, (lease, tx) => {
        tx.set("x", lease.token);
        return lease.token;
      });
      return [outer.token, inner];
    });
    expect(tokens[0]).toBe(tokens[1]);
    expect(store.get("x")).toBe(tokens[0]);
  });

  it("is refused as `reentrant` where nobody would see that it is nested", async () => {
    const manager = new World().manager({ detectReentry: false });
    expect(await rejection(manager.request("a", { reentrant: true }, () => 1))).toBeInstanceOf(
      InvalidArgumentError,
    );
  });
});

describe("a guard bound to a request", () => {
  /** A guard whose resource has `highest` stored, and a record of what it was shown. */
  function guardAt(
    highest: bigint,
    first: () => void = () => undefined,
  ): { claims: bigint[]; guard: never } {
    const claims: bigint[] = [];
    const check = (credential: { token: bigint }): void => {
      first();
      claims.push(credential.token);
      if (credential.token <= highest)
        throw new StaleTokenError({
          resource: "r",
          presented: credential.token,
          highest,
          step: "claim",
        });
    };
    const guard = {
      async claim(_db: unknown, _resources: unknown, credential: { token: bigint }): Promise<void> {
        check(credential);
      },
      async run(
        _db: unknown,
        _resources: unknown,
        credential: { token: bigint },
        fn: (tx: string) => unknown,
      ) {
        check(credential);
        return await fn("tx");
      },
    };
    return { claims, guard: guard as never };
  }

  it("gets its transaction, and its result", async () => {
    const manager = new World().manager();
    const { guard, claims } = guardAt(0n);
    const result = await manager.request("a", { guard: { guard, db: {} } }, (lease, tx) => [
      lease.name,
      tx,
    ]);
    expect(result).toEqual(["a", "tx"]);
    expect(claims).toHaveLength(1);
  });

  it("repairs a counter that went back, once: the second lease's token is above what the resource knows", async () => {
    const world = new World();
    const manager = world.manager();
    const future = BigInt(world.clock.wall()) * 1000n + 10n ** 12n;
    const { guard, claims } = guardAt(future);
    const tokens = await manager.request("a", { guard: { guard, db: {} } }, (lease) => lease.token);
    expect(claims).toHaveLength(2);
    expect(tokens).toBeGreaterThan(future);
    expect((await manager.inspect("a")).held).toEqual([]);
    // Those who come after are right already: the counter was raised in the releasing step.
    expect((await world.manager().acquire("a")).token).toBeGreaterThan(future);
  });

  it("tells the holder that its lease is lost when the release for a repair finds the record gone", async () => {
    const world = new World();
    const operator = world.manager();
    const manager = world.manager({}, async (step, run) => {
      if (step === "release") await operator.revoke("a", { reason: "test", now: true });
      return await run();
    });
    const lost: unknown[] = [];
    manager.on("lost", (event) => lost.push(event));
    const { guard } = guardAt(BigInt(world.clock.wall()) * 1000n + 10n ** 12n);
    const working = manager.request("a", { guard: { guard, db: {} } }, () => 1);
    expect(await rejection(working)).toBeInstanceOf(StaleTokenError);
    expect(lost).toMatchObject([{ name: "a", reason: "revoked" }]);
  });

  it("does not repair twice, nor a refusal inside the body, nor for a holder that lost its lease", async () => {
    const world = new World();
    const manager = world.manager();
    const never = guardAt(2n ** 62n - 2n);
    expect(
      await rejection(manager.request("a", { guard: { guard: never.guard, db: {} } }, () => 1)),
    ).toBeDefined();
    expect(never.claims.length).toBeLessThanOrEqual(2);
    const other = new World();
    const fine = guardAt(0n);
    const stale = new StaleTokenError({ resource: "x", presented: 1n, highest: 2n, step: "claim" });
    const inside = other
      .manager()
      .request("a", { guard: { guard: fine.guard, db: {} } }, async () => Promise.reject(stale));
    expect(await rejection(inside)).toBe(stale);
    expect(fine.claims).toHaveLength(1);
    const newer = guardAt(BigInt(other.clock.wall()) * 1000n + 10n ** 12n, () => {
      other.clock.stall(5000);
    });
    const lost = other.manager().request("a", { guard: { guard: newer.guard, db: {} } }, () => 1);
    expect(await rejection(lost)).toMatchObject({ code: "ERR_LEASE_LOST" });
    expect(newer.claims).toHaveLength(1);
  });
});

describe("once", () => {
  it("runs for one of many, and for the next when `keep` is over, counted from the start", async () => {
    const world = new World();
    const managers = Array.from({ length: 6 }, (_, i) =>
      world.manager({ holder: { label: `r${i}` } }),
    );
    let ran = 0;
    const tick = async (): Promise<unknown[]> =>
      await Promise.all(
        managers.map(async (manager) => manager.once("n", { keep: "1h" }, () => (ran += 1))),
      );
    const first = await tick();
    expect(ran).toBe(1);
    expect(first.filter((result) => (result as { ran: boolean }).ran)).toHaveLength(1);
    expect(first[5]).toMatchObject({ ran: false, holder: { label: "r0" } });
    await world.clock.advance(3_599_000);
    await tick();
    expect(ran).toBe(1);
    await world.clock.advance(1100);
    await tick();
    expect(ran).toBe(2);
  });

  it("keeps its record while the body runs longer than `keep`, and frees it at the end", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const body = { end: (): void => undefined };
    const running = a.once("n", { keep: 2000 }, async () => {
      await new Promise<void>((resolve) => (body.end = resolve));
    });
    await world.clock.advance(10_000);
    expect(await b.once("n", { keep: 2000 }, () => 1)).toMatchObject({ ran: false });
    body.end();
    await running;
    expect(await b.once("n", { keep: 2000 }, () => 1)).toMatchObject({ ran: true });
  });

  it("counts a crash and an error as run, unless errors are retried", async () => {
    const world = new World();
    const boom = (): never => {
      throw new Error("boom");
    };
    await expect(world.manager().once("n", { keep: "1h" }, boom)).rejects.toThrow("boom");
    expect(await world.manager().once("n", { keep: "1h" }, () => 1)).toMatchObject({ ran: false });
    await expect(
      world.manager().once("m", { keep: "1h", retryOnError: true }, boom),
    ).rejects.toThrow("boom");
    await world.clock.advance(1000);
    expect(
      await world.manager().once("m", { keep: "1h", retryOnError: true }, () => 1),
    ).toMatchObject({ ran: true });
    expect(
      await world.manager().once("m", { keep: "1h", retryOnError: true }, () => 1),
    ).toMatchObject({ ran: false });
    // A crash: nothing renews any more.
    const crashing = world.manager({}, async (step, run) =>
      step === "renew" ? await silence() : await run(),
    );
    void rejection(crashing.once("c", { keep: "1h" }, async () => silence()));
    void rejection(crashing.once("d", { keep: "1h", retryOnError: true }, async () => silence()));
    await world.clock.advance(5000);
    expect(await world.manager().once("c", { keep: "1h" }, () => 1)).toMatchObject({ ran: false });
    expect(await world.manager().once("d", { keep: "1h" }, () => 1)).toMatchObject({ ran: true });
  });

  it("takes runs of one scheduled time for one run, however the clocks jitter", async () => {
    const world = new World();
    const at = "2026-11-30T00:00:00Z";
    expect(await world.manager().once("n", { keep: "1h", at }, () => 1)).toMatchObject({
      ran: true,
    });
    await world.clock.advance(400);
    expect(
      await world.manager().once("n", { keep: "1h", at: new Date(at) }, () => 1),
    ).toMatchObject({ ran: false });
    await world.clock.advance(3_599_500);
    const next = { keep: "1h", at: "2026-11-30T01:00:00Z" };
    expect(await world.manager().once("n", next, () => 1)).toMatchObject({ ran: true });
  });

  it("tells a body that runs that its record was revoked", async () => {
    const world = new World();
    const manager = world.manager();
    const body = { end: (): void => undefined };
    const running = rejection(
      manager.once("n", { keep: "1h" }, async () => {
        await new Promise<void>((resolve) => (body.end = resolve));
      }),
    );
    await world.clock.advance(100);
    await world.manager().revoke("n", { reason: "test", now: true });
    await world.clock.advance(500);
    body.end();
    expect(await running).toMatchObject({ code: "ERR_LEASE_LOST", reason: "revoked" });
  });
});

describe("acquireAll", () => {
  it("takes each name once, in one order, and releases all", async () => {
    const world = new World();
    const manager = world.manager();
    const set = await manager.acquireAll(["b", "a", "b", "c"]);
    expect(set.leases.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(set.get("b")?.name).toBe("b");
    expect(set.get("z")).toBeUndefined();
    expect([...(await set.release())]).toEqual([
      ["a", "released"],
      ["b", "released"],
      ["c", "released"],
    ]);
  });

  it("takes all or none within one wait: what it had is free at once (B110)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const held = await a.acquire("b");
    const start = world.clock.mono();
    expect(
      await world.clock.settle(rejection(b.acquireAll(["a", "b", "c"], { wait: 500 }))),
    ).toBeInstanceOf(AcquireTimeoutError);
    expect(world.clock.mono() - start).toBe(500);
    expect(await a.tryAcquire("a")).not.toBeNull();
    await held.release();
  });

  it("never deadlocks however the callers order their names (S36)", async () => {
    const world = new World();
    const managers = [world.manager(), world.manager()];
    const rounds = managers.map(async (manager, i) => {
      for (let round = 0; round < 100; round += 1) {
        const set = await manager.acquireAll(i === 0 ? ["a", "b"] : ["b", "a", "a"]);
        await set.release();
      }
    });
    // The clock stands still: a wake-up that is faster than the answer "queued" must not get lost.
    await Promise.all(rounds);
    expect((await managers[0]?.query())?.held).toEqual([]);
  });

  it("aborts its signal as soon as one lease is lost", async () => {
    const world = new World();
    const manager = world.manager();
    await using set = await manager.acquireAll(["a", "b"]);
    const { signal } = set;
    await world.manager().revoke("b", { reason: "test", now: true });
    await world.clock.advance(400);
    expect(signal.aborted).toBe(true);
    expect(set.signal.reason).toMatchObject({ lock: "b" });
  });
});

describe("close", () => {
  it("refuses new work, ends waiters, waits for running requests, and releases the rest", async () => {
    const world = new World();
    const manager = world.manager();
    const lease = await manager.acquire("held");
    await world.manager().acquire("busy");
    const waiting = rejection(manager.acquire("busy"));
    const body = { end: (): void => undefined };
    const running = manager.request("running", async () => {
      await new Promise<void>((resolve) => (body.end = resolve));
      return "done";
    });
    await world.clock.advance(10);
    const closing = manager.close();
    expect(await world.clock.settle(waiting)).toBeInstanceOf(ManagerClosedError);
    expect(await rejection(manager.acquire("x"))).toBeInstanceOf(ManagerClosedError);
    expect(await rejection(manager.request("x", () => 1))).toBeInstanceOf(ManagerClosedError);
    expect(await rejection(manager.inspect("x"))).toBeInstanceOf(ManagerClosedError);
    expect(await world.settled(closing)).toBe(false);
    body.end();
    expect(await running).toBe("done");
    await world.clock.settle(closing);
    expect(lease.state).toBe("released");
    const other = world.manager();
    expect((await other.query()).held.map(({ name }) => name)).toEqual(["busy"]);
    await manager.close();
  });

  it("tells a request that outlasts the drain that its lease is lost, and leaves that lease to its ttl", async () => {
    const world = new World();
    const manager = world.manager({ drain: 500 });
    const body = { end: (): void => undefined };
    let aborted = false;
    const running = rejection(
      manager.request("a", async (lease) => {
        lease.signal.addEventListener("abort", () => (aborted = true));
        await new Promise<void>((resolve) => (body.end = resolve));
      }),
    );
    await world.clock.advance(10);
    await world.clock.settle(manager.close());
    expect(aborted).toBe(true);
    const other = world.manager();
    expect(await other.tryAcquire("a")).toBeNull();
    body.end();
    expect(await running).toMatchObject({ code: "ERR_LEASE_LOST" });
  });

  it("leaves no timer behind", async () => {
    const world = new World();
    const manager = world.manager();
    await manager.acquire("a");
    await manager.request("b", () => 1);
    await manager.close();
    await world.clock.advance(10_000);
    expect(world.clock.pending).toBe(0);
  });
});
