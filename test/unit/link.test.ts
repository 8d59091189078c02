import { describe, expect, it } from "vitest";
import {
  type Backend,
  BackendConfigError,
  BackendUnavailableError,
  createLockManager,
  type Driver,
  DriverError,
} from "../../src/index.ts";
import { FakeRandom } from "../../src/testing/index.ts";
import { rejection, World } from "../fixtures/world.ts";

type Opened = (backend: Backend) => Backend | Promise<Backend>;

/** The world's driver, with something done to what it opens. */
function opening(world: World, opened: Opened): Driver {
  return {
    ...world.driver,
    open: async (context: Parameters<Driver["open"]>[0]) =>
      opened(await world.driver.open(context)),
  };
}

function managerOver(world: World, driver: Driver): ReturnType<World["manager"]> {
  return createLockManager(driver as typeof world.driver, {
    clock: world.clock,
    random: new FakeRandom(99),
    ttl: 1000,
  });
}

/** The backend, with some of its steps replaced. */
function replaced(backend: Backend, steps: Partial<Backend>): Backend {
  return {
    attempt: async (ask, io) => backend.attempt(ask, io),
    renew: async (grants, io) => backend.renew(grants, io),
    release: async (grants, io) => backend.release(grants, io),
    revoke: async (order, io) => backend.revoke(order, io),
    inspect: async (name, io) => backend.inspect(name, io),
    list: async (page, io) => backend.list(page, io),
    probe: async (io) => backend.probe(io),
    close: async () => backend.close(),
    ...steps,
  };
}

describe("a backend that opens slowly", () => {
  it("is never asked for a caller who was told that nothing was applied", async () => {
    const world = new World();
    const slow = managerOver(
      world,
      opening(world, async (backend) => {
        await new Promise<void>((resolve) => world.clock.timer(600, resolve));
        return backend;
      }),
    );
    const error = await world.clock.settle(rejection(slow.tryAcquire("a")));
    expect(error).toBeInstanceOf(BackendUnavailableError);
    expect(error).toMatchObject({ outcome: "not-applied" });
    await world.clock.advance(400);
    expect(await world.manager().tryAcquire("a")).not.toBeNull();
  });

  it("is closed when it comes after the time for opening", async () => {
    const world = new World();
    const closed: string[] = [];
    const slow = managerOver(
      world,
      opening(world, async (backend) => {
        await new Promise<void>((resolve) => world.clock.timer(15_000, resolve));
        return replaced(backend, {
          close: async () => {
            closed.push("closed");
          },
        });
      }),
    );
    await world.clock.settle(rejection(slow.acquire("a")));
    await world.clock.advance(15_000);
    expect(closed).toEqual(["closed"]);
  });
});

describe("a backend that cannot be used", () => {
  it("is closed when its probe fails or refuses it, and the probe's word is the news", async () => {
    for (const refuses of [true, false]) {
      const world = new World();
      const closed: string[] = [];
      const manager = managerOver(
        world,
        opening(world, (backend) =>
          replaced(backend, {
            probe: async () => {
              if (refuses) return [{ name: "fsync", value: "off", verdict: "refuse" as const }];
              throw new DriverError("config", "not-applied", "no right to look");
            },
            close: async () => {
              closed.push("closed");
              throw new Error("cannot even be closed");
            },
          }),
        ),
      );
      const error = await rejection(manager.acquire("a"));
      expect(error).toBeInstanceOf(BackendConfigError);
      expect((error as Error).message).toContain(refuses ? "fsync is off" : "no right to look");
      expect(closed).toEqual(["closed"]);
    }
  });
});

describe("a manager that is closed", () => {
  it("never opens its backend again, whatever was still to be undone", async () => {
    const world = new World();
    const opened: string[] = [];
    let silent = true;
    const manager = managerOver(
      world,
      opening(world, (backend) => {
        opened.push("opened");
        return replaced(backend, {
          release: async (grants, io) =>
            silent ? await new Promise<never>(() => undefined) : await backend.release(grants, io),
        });
      }),
    );
    const lease = await manager.acquire("a");
    const released = lease.release();
    await world.clock.settle(manager.close());
    expect(await world.clock.settle(released)).toBe("unknown");
    silent = false;
    await world.clock.advance(120_000);
    expect(opened).toEqual(["opened"]);
    expect(world.clock.pending).toBe(0);
  });

  it("lets the process end also when its backend cannot be closed, and says so", async () => {
    const world = new World();
    const manager = managerOver(
      world,
      opening(world, (backend) =>
        replaced(backend, {
          close: async () => {
            throw new DriverError("unavailable", "unknown", "the socket is gone");
          },
        }),
      ),
    );
    await manager.acquire("a");
    expect(await rejection(manager.close())).toMatchObject({ operation: "close" });
    expect(world.clock.pendingRefs).toBe(0);
  });
});

describe("a driver that answers what the port does not know", () => {
  it.each([undefined, null, {}, { kind: "perhaps" }, []])(
    "is told as what it is, by every call, and leaves no rejection behind: %j",
    async (answer) => {
      const world = new World();
      const manager = world.manager({ trustSettings: true }, async () => answer);
      const calls = [
        async () => manager.acquire("a"),
        async () => manager.tryAcquire("a"),
        async () => manager.acquire("a", { wait: 0 }),
      ];
      for (const call of calls)
        expect(await world.clock.settle(rejection(call()))).toMatchObject({
          code: "ERR_BACKEND_CONFIG",
        });
    },
  );

  it.each([undefined, null, {}, [], [{ kind: "perhaps" }]])(
    "does not renew and does not release: %j",
    async (answer) => {
      const world = new World();
      let odd = false;
      const manager = world.manager({}, async (step, run) =>
        odd && (step === "renew" || step === "release") ? answer : await run(),
      );
      const lease = await manager.acquire("a");
      odd = true;
      await world.clock.advance(500);
      expect(lease.state).toBe("jeopardy");
      expect(await rejection(lease.renew())).toMatchObject({ code: "ERR_BACKEND_CONFIG" });
      expect(await world.clock.settle(lease.release())).toBe("unknown");
    },
  );
});
