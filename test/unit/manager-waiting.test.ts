import { describe, expect, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import {
  AcquireTimeoutError,
  BackendConfigError,
  BackendUnavailableError,
  createLockManager,
  DriverError,
  PermitMismatchError,
  UnsupportedError,
} from "../../src/index.ts";
import { silence } from "../fixtures/intercepted.ts";
import { rejection, World } from "../fixtures/world.ts";

describe("waiting", () => {
  it("ends after `wait` with who holds it, and leaves nothing behind (B113)", async () => {
    const world = new World();
    const [a, b, c] = [
      world.manager({ holder: { label: "nightly" } }),
      world.manager(),
      world.manager(),
    ];
    const held = await a.acquire("a");
    const start = world.clock.mono();
    const error = await world.clock.settle(rejection(b.acquire("a", { wait: 500 })));
    expect(error).toBeInstanceOf(AcquireTimeoutError);
    expect(error).toMatchObject({ code: "ERR_ACQUIRE_TIMEOUT", holder: { label: "nightly" } });
    expect((error as Error).message).toMatch(/"a" not acquired within 500 ms; held by nightly on/);
    expect(world.clock.mono() - start).toBe(500);
    expect((await a.inspect("a")).pending).toEqual([]);
    const next = c.acquire("a");
    await world.clock.advance(10);
    await held.release();
    expect(await world.settled(next)).toBe(true);
  });

  it("has nothing to do with the ttl: a wait may be much longer (B19)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const held = await a.acquire("a");
    const waiting = b.acquire("a", { ttl: 500, wait: 5000 });
    await world.clock.advance(2000);
    await held.release();
    expect((await world.clock.settle(waiting)).state).toBe("held");
  });

  it("is one attempt with `wait: 0`, and `null` from tryAcquire", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    await a.acquire("a");
    expect(await rejection(b.acquire("a", { wait: 0 }))).toBeInstanceOf(AcquireTimeoutError);
    expect(await b.tryAcquire("a")).toBeNull();
    expect(await b.request("a", { ifAvailable: true }, (lease) => lease)).toBeNull();
  });

  it("is cancelled by a signal with its reason untouched; after the grant the signal does nothing (B88)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const held = await a.acquire("a");
    const aborter = new AbortController();
    const waiting = rejection(b.acquire("a", { signal: aborter.signal }));
    await world.clock.advance(100);
    const reason = { any: "thing" };
    aborter.abort(reason);
    expect(await world.clock.settle(waiting)).toBe(reason);
    expect((await a.inspect("a")).pending).toEqual([]);
    expect(await rejection(b.acquire("z", { signal: aborter.signal }))).toBe(reason);
    await held.release();
    const later = new AbortController();
    const lease = await b.acquire("a", { signal: later.signal });
    later.abort();
    expect(lease.state).toBe("held");
  });

  it("does not collect listeners on a signal that is used for many acquires (B88)", async () => {
    const world = new World();
    const manager = world.manager();
    const { signal } = new AbortController();
    let listeners = 0;
    const [add, remove] = [
      signal.addEventListener.bind(signal),
      signal.removeEventListener.bind(signal),
    ];
    signal.addEventListener = (...args: Parameters<typeof add>): void => {
      listeners += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>): void => {
      listeners -= 1;
      remove(...args);
    };
    for (let i = 0; i < 50; i += 1) {
      const lease = await manager.acquire("a", { signal });
      await rejection(
        world.clock.settle(manager.acquire("a", { signal, wait: 5, label: "other" })),
      );
      await lease.release();
    }
    expect(listeners).toBe(0);
  });

  it("tells after 30 s, and every 30 s, who holds it", async () => {
    const world = new World();
    const [a, b] = [world.manager({ holder: { label: "slow" } }), world.manager()];
    await a.acquire("a");
    const notes: { waitedMs: number; label: string | undefined }[] = [];
    b.on("waiting", ({ waitedMs, holder }) => notes.push({ waitedMs, label: holder?.label }));
    const waiting = rejection(b.acquire("a", { wait: "100s" }));
    await world.clock.advance(95_000);
    expect(notes.map(({ label }) => label)).toEqual(["slow", "slow", "slow"]);
    expect(notes[0]?.waitedMs).toBeGreaterThan(28_000);
    await world.clock.advance(10_000);
    expect(await waiting).toBeInstanceOf(AcquireTimeoutError);
  });

  it("stands a wall clock that jumps ten minutes either way (S57)", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    await a.acquire("a");
    const waiting = rejection(b.acquire("a", { wait: 2000 }));
    await world.clock.advance(500);
    world.clock.step(600_000);
    await world.clock.advance(1000);
    expect(await world.settled(waiting)).toBe(false);
    world.clock.step(-1_200_000);
    await world.clock.advance(499);
    expect(await world.settled(waiting)).toBe(false);
    await world.clock.advance(1);
    expect(await waiting).toBeInstanceOf(AcquireTimeoutError);
  });

  it("holds the process open; a held lease alone does not", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    await a.acquire("a");
    expect(world.clock.pendingRefs).toBe(0);
    const waiting = rejection(b.acquire("a", { wait: 1000 }));
    await world.clock.drain();
    expect(world.clock.pendingRefs).toBeGreaterThan(0);
    await world.clock.advance(1000);
    await waiting;
    expect(world.clock.pendingRefs).toBe(0);
    const body = { end: (): void => undefined };
    const running = a.request("b", async () => {
      await new Promise<void>((resolve) => (body.end = resolve));
    });
    await world.clock.drain();
    expect(world.clock.pendingRefs).toBe(1);
    body.end();
    await running;
    expect(world.clock.pendingRefs).toBe(0);
  });

  it("refuses what the driver has not", async () => {
    const exclusive = createLockManager({
      ...memoryDriver(),
      modes: ["exclusive"],
      retains: "no",
    } as ReturnType<typeof memoryDriver>);
    expect(await rejection(exclusive.acquire("a", { mode: "shared" }))).toBeInstanceOf(
      UnsupportedError,
    );
    expect(await rejection(exclusive.semaphore("a", { permits: 2 }).acquire())).toBeInstanceOf(
      UnsupportedError,
    );
    expect(await rejection(exclusive.once("a", { keep: "1h" }, () => 1))).toBeInstanceOf(
      UnsupportedError,
    );
    expect(
      await rejection(
        new World()
          .manager()
          .acquire("a")
          .then(async (lease) => lease.export()),
      ),
    ).toBeInstanceOf(UnsupportedError);
  });
});

describe("outages", () => {
  const down = async (): Promise<never> => {
    throw new DriverError("unavailable", "not-applied", "connection refused");
  };

  it("reject a first attempt within 5 s, or within a shorter wait (B82)", async () => {
    for (const [wait, atMost] of [
      ["forever", 5100],
      ["1h", 5100],
      [700, 750],
      [0, 10],
    ] as const) {
      const world = new World();
      const manager = world.manager({ ttl: "30s" }, down);
      const start = world.clock.mono();
      const error = await world.clock.settle(rejection(manager.acquire("a", { wait })));
      expect(error).toBeInstanceOf(BackendUnavailableError);
      expect(error).toMatchObject({ operation: "acquire", outcome: "not-applied" });
      expect(world.clock.mono() - start).toBeLessThanOrEqual(atMost);
    }
  });

  it("reject a first attempt whose link is silent as well, and undo what may have happened", async () => {
    const world = new World();
    let silent = true;
    const manager = world.manager({ ttl: "30s", trustSettings: true }, async (_step, run) => {
      const answer = await run();
      return silent ? await silence() : answer;
    });
    const start = world.clock.mono();
    const error = await world.clock.settle(rejection(manager.acquire("a")));
    expect(error).toBeInstanceOf(BackendUnavailableError);
    expect(error).toMatchObject({ outcome: "unknown" });
    expect(world.clock.mono() - start).toBeLessThanOrEqual(5100);
    silent = false;
    await world.clock.advance(6000);
    expect((await world.manager().inspect("a")).held).toEqual([]);
  });

  it("are ridden out once it queues, and end as unavailable, never as a timeout", async () => {
    const world = new World();
    let up = true;
    const [a, b] = [
      world.manager({ ttl: "10s" }),
      world.manager({}, async (_step, run) => (up ? await run() : await down())),
    ];
    await a.acquire("a");
    const waiting = b.acquire("a", { wait: "60s" });
    const failing = rejection(b.acquire("a", { wait: "20s", label: "second" }));
    await world.clock.advance(100);
    up = false;
    await world.clock.advance(21_000);
    expect(await failing).toBeInstanceOf(BackendUnavailableError);
    expect(await world.settled(waiting)).toBe(false);
    up = true;
    await a.close();
    expect((await world.clock.settle(waiting)).state).toBe("held");
  });

  it("do not confuse a store that is only busy with one that is down", async () => {
    const world = new World();
    let busy = 5;
    const manager = world.manager({}, async (_step, run) => {
      if (busy > 0) {
        busy -= 1;
        throw new DriverError("busy", "not-applied", "the database is locked");
      }
      return await run();
    });
    expect(await world.clock.settle(manager.tryAcquire("a"))).not.toBeNull();
  });

  it("tell a wrong set-up at once, whatever the wait, and open again at the next use", async () => {
    const world = new World();
    let wrong = true;
    const driver = memoryDriver();
    const manager = createLockManager(
      {
        ...driver,
        open: async (context: Parameters<typeof driver.open>[0]) => {
          if (wrong) throw new DriverError("config", "not-applied", "the table is missing");
          return await driver.open(context);
        },
      },
      { clock: world.clock },
    );
    const error = await rejection(manager.acquire("a"));
    expect(error).toBeInstanceOf(BackendConfigError);
    expect((error as Error).message).toMatch(/table is missing/);
    wrong = false;
    expect((await manager.acquire("a")).state).toBe("held");
  });

  it("never leave an unhandled rejection or an error that is no Ringfence error", async () => {
    const world = new World();
    const manager = world.manager({}, async () => {
      throw new TypeError("a bug in the driver");
    });
    const calls = [
      async () => manager.acquire("a"),
      async () => manager.tryAcquire("a"),
      async () => manager.inspect("a"),
      async () => manager.query(),
      async () => manager.revoke("a", { reason: "x" }),
    ];
    for (const call of calls)
      expect(await rejection(call())).toMatchObject({ code: "ERR_BACKEND_CONFIG" });
  });
});

describe("a lost reply to an acquire", () => {
  it("is asked again under the same grant id, and the lease is ours at once (S06)", async () => {
    const world = new World();
    let lose = 2;
    const manager = world.manager({ ttl: "30s" }, async (step, run) => {
      const answer = await run();
      if (step === "attempt" && lose > 0) {
        lose -= 1;
        throw new DriverError("timeout", "unknown", "the reply was lost");
      }
      return answer;
    });
    const start = world.clock.mono();
    const lease = await world.clock.settle(manager.acquire("a"));
    expect(world.clock.mono() - start).toBeLessThan(300);
    expect((await manager.inspect("a")).held.map(({ grantId }) => grantId)).toEqual([
      lease.grantId,
    ]);
  });

  it("leaves no ghost: a packet that arrives after the release grants nothing (S44)", async () => {
    const world = new World();
    const late: (() => Promise<unknown>)[] = [];
    let delay = true;
    const manager = world.manager({}, async (step, run) => {
      if (step === "attempt" && delay) {
        delay = false;
        late.push(run);
        throw new DriverError("timeout", "unknown", "no answer");
      }
      return await run();
    });
    const lease = await world.clock.settle(manager.acquire("a"));
    await lease.release();
    await late[0]?.();
    expect((await manager.inspect("a")).held).toEqual([]);
    expect(await world.manager().tryAcquire("a")).not.toBeNull();
  });

  it("of an acquire that was given up leaves no ghost either", async () => {
    const world = new World();
    const late: (() => Promise<unknown>)[] = [];
    const manager = world.manager({}, async (step, run) => {
      if (step !== "attempt") return await run();
      late.push(run);
      return await silence();
    });
    await world.clock.settle(rejection(manager.acquire("a", { wait: 200 })));
    await world.clock.advance(1000);
    for (const packet of late) await packet();
    expect((await world.manager().inspect("a")).held).toEqual([]);
    expect((await world.manager().inspect("a")).pending).toEqual([]);
  });
});

describe("hand-off inside the process", () => {
  it("serves 200 callers in order with rising tokens and far fewer requests", async () => {
    const world = new World();
    let requests = 0;
    const manager = world.manager({}, async (_step, run) => {
      requests += 1;
      return await run();
    });
    const tokens: bigint[] = [];
    const order: number[] = [];
    let inside = 0;
    await Promise.all(
      Array.from({ length: 200 }, async (_, i) =>
        manager.request("a", async (lease) => {
          inside += 1;
          expect(inside).toBe(1);
          tokens.push(lease.token);
          order.push(i);
          await Promise.resolve();
          inside -= 1;
        }),
      ),
    );
    expect(order).toEqual([...order].sort((x, y) => x - y));
    expect(tokens.every((token, i) => i === 0 || token > (tokens[i - 1] ?? 0n))).toBe(true);
    expect(requests).toBeLessThan(20);
  });

  it("lets the backend's queue go first after 50 ms, and serves both processes", async () => {
    const world = new World();
    const [a, b] = [world.manager(), world.manager()];
    const log: string[] = [];
    const work = async (manager: typeof a, who: string): Promise<void> => {
      await manager.request("a", async () => {
        log.push(who);
        await new Promise<void>((resolve) => world.clock.timer(10, resolve));
      });
    };
    const all = Promise.all([
      ...Array.from({ length: 20 }, async () => work(a, "a")),
      ...Array.from({ length: 5 }, async () => work(b, "b")),
    ]);
    await world.clock.settle(all);
    expect(log.filter((who) => who === "b")).toHaveLength(5);
    expect(log.indexOf("b")).toBeLessThan(12);
  });

  it('is off with `handOff: "off"`: strictly first in, first out across processes', async () => {
    const world = new World();
    const managers = [
      world.manager({ handOff: "off" }),
      world.manager({ handOff: "off" }),
      world.manager({ handOff: "off" }),
    ];
    const held = await world.manager().acquire("a");
    const order: number[] = [];
    const all: Promise<void>[] = [];
    for (let i = 0; i < 12; i += 1) {
      const manager = managers[i % 3] ?? world.manager();
      all.push(manager.request("a", () => void order.push(i)));
      await world.clock.advance(1);
    }
    await held.release();
    await world.clock.settle(Promise.all(all));
    // One ticket a process: its first waiter's place is kept, later ones of the process come when that place is free.
    expect(order.slice(0, 3)).toEqual([0, 1, 2]);
    for (const process of [0, 1, 2]) {
      const own = order.filter((i) => i % 3 === process);
      expect(own).toEqual([...own].sort((x, y) => x - y));
    }
  });

  it("does not happen on other terms, after a loss, or with less than half of the ttl left", async () => {
    const world = new World();
    const manager = world.manager({ keepalive: "off" });
    const first = await manager.acquire("a");
    const second = manager.acquire("a", { ttl: 5000 });
    await first.release();
    const other = await world.clock.settle(second);
    expect(other.grantId).not.toBe(first.grantId);
    const third = manager.acquire("a", { ttl: 5000 });
    await world.clock.advance(4000);
    await other.release();
    expect((await world.clock.settle(third)).grantId).not.toBe(other.grantId);
  });

  it("renews, releases and loses the leases of a tenure together", async () => {
    const world = new World();
    const manager = world.manager();
    const first = await manager.acquire("a");
    const [secondly, thirdly] = [manager.acquire("a"), manager.acquire("a")];
    await first.release();
    const second = await world.clock.settle(secondly);
    await world.manager().revoke("a", { reason: "test", now: true });
    await world.clock.advance(400);
    expect(second.state).toBe("lost");
    const third = await world.clock.settle(thirdly);
    expect(third.state).toBe("held");
  });
});

describe("other modes", () => {
  it("lets readers in together and a writer alone, in order", async () => {
    const world = new World();
    const manager = world.manager();
    const readers = await Promise.all(
      [1, 2, 3].map(async () => manager.acquire("a", { mode: "shared" })),
    );
    expect(readers.map(({ mode }) => mode)).toEqual(["shared", "shared", "shared"]);
    const writer = manager.acquire("a");
    const late = manager.acquire("a", { mode: "shared" });
    await world.clock.advance(100);
    expect([await world.settled(writer), await world.settled(late)]).toEqual([false, false]);
    for (const reader of readers) await reader.release();
    const writing = await world.clock.settle(writer);
    expect(await world.settled(late)).toBe(false);
    await writing.release();
    expect((await world.clock.settle(late)).mode).toBe("shared");
  });

  it("gives as many permits as there are, also to one process, and the next when one is free", async () => {
    const world = new World();
    const manager = world.manager();
    const semaphore = manager.semaphore("a", { permits: 3 });
    const permits = await Promise.all([
      semaphore.acquire(),
      semaphore.acquire(),
      semaphore.acquire(),
    ]);
    expect(await semaphore.tryAcquire()).toBeNull();
    const fourth = semaphore.acquire();
    await world.clock.advance(100);
    expect(await world.settled(fourth)).toBe(false);
    await permits[1].release();
    expect((await world.clock.settle(fourth)).state).toBe("held");
    expect(await rejection(world.manager().semaphore("a", { permits: 4 }).acquire())).toMatchObject(
      { asked: 4, stored: 3 },
    );
    expect(
      await rejection(world.manager().semaphore("a", { permits: 4 }).tryAcquire()),
    ).toBeInstanceOf(PermitMismatchError);
    expect(await semaphore.request({ ifAvailable: true }, (lease) => lease)).toBeNull();
  });
});
