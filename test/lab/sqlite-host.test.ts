import { expect, it } from "vitest";
import { DriverError } from "../../src/core/driver.ts";
import { LeaseLostError } from "../../src/core/errors.ts";
import { CoreClient } from "../../src/lab/clients/core-client.ts";
import { SqliteHost, type SqliteHostOptions } from "../../src/lab/servers/sqlite-host.ts";
import { sealed } from "../../src/lab/sim/sealed.ts";
import { World } from "../../src/lab/sim/world.ts";

const TTL_MS = 10_000;
const HELD = { ttl: TTL_MS, keepalive: "off" } as const;

interface Scene {
  readonly world: World;
  readonly host: SqliteHost;
  readonly client: (name: string) => CoreClient["manager"];
}

/** Plays a scene in virtual time; what it throws, the test throws. */
async function play(options: SqliteHostOptions, scene: (s: Scene) => Promise<void>): Promise<void> {
  await sealed(async () => {
    const world = new World({ seed: 1 });
    const host = new SqliteHost(world, "F", options);
    const state: { over: boolean; error?: Error } = { over: false };
    const client = (name: string): CoreClient["manager"] => {
      const process = host.startClient(name);
      return new CoreClient(world, process, host.driverFor(process)).manager;
    };
    scene({ world, host, client }).then(
      () => (state.over = true),
      (error: unknown) => {
        state.over = true;
        state.error = error instanceof Error ? error : new Error(String(error));
      },
    );
    await world.run(20 * TTL_MS, () => state.over);
    if (state.error !== undefined) throw state.error;
    expect(state.over).toBe(true);
  });
}

it("a holder that is killed keeps the name for its ttl, on every durability", async () => {
  for (const durability of ["normal", "full"] as const)
    await play({ durability }, async ({ world, client }) => {
      const a = await client("A").acquire("L", HELD);
      const from = world.now;
      world.kill("A");
      const b = await client("B").acquire("L", { ...HELD, wait: "forever" });
      expect(world.now - from).toBeGreaterThan(TTL_MS - 10);
      expect(b.token).toBeGreaterThan(a.token);
      expect(b).toMatchObject({ takenOver: true, previousToken: a.token });
    });
});

it("a process that dies within a transaction leaves nothing of it", async () => {
  await play({}, async ({ world, host, client }) => {
    const asking = client("A");
    // Its first step opens the file.
    expect(await asking.tryAcquire("other", HELD)).not.toBeNull();
    host.file.nextFault = "dies";
    void asking.acquire("L", { ...HELD, mode: "shared" });
    await host.process.sleep(5);
    expect(world.process("A").alive).toBe(false);
    expect(await client("B").inspect("L")).toMatchObject({ mode: null, holder: null });
  });
});

it("a disk error of which nobody knows whether it undid the commit leaves no grant behind", async () => {
  for (const fault of ["fails", "fails, applied"] as const)
    await play({}, async ({ host, client }) => {
      const a = client("A");
      await a.tryAcquire("other", HELD);
      host.file.nextFault = fault;
      const lease = await a.acquire("L", HELD);
      await lease.release();
      expect(await client("B").tryAcquire("L", HELD)).not.toBeNull();
    });
});

it("while a process is stopped within a transaction, everybody else finds the file busy", async () => {
  await play({}, async ({ world, host, client }) => {
    const [a, b] = [client("A"), client("B")];
    await a.tryAcquire("other", HELD);
    world.pause("A");
    host.file.stoppedWriter = world.process("A");
    const from = world.now;
    world.scheduler.after(3000, () => {
      world.resume("A");
    });
    await b.acquire("L", { ...HELD, wait: "forever" });
    expect(world.now - from).toBeGreaterThanOrEqual(3000);
  });
});

// S59.
it("a file that is deleted: the old holder is lost at its next step, and tokens still rise", async () => {
  await play({}, async ({ host, client }) => {
    const a = await client("A").acquire("L", HELD);
    host.deleteFile();
    const b = await client("B").acquire("L", HELD);
    expect(b.token).toBeGreaterThan(a.token);
    const renewing = a.renew();
    await expect(renewing).rejects.toBeInstanceOf(LeaseLostError);
    await expect(renewing).rejects.toMatchObject({ reason: "taken" });
    expect(a.state).toBe("lost");
    await b.renew();
    expect(b.state).toBe("held");
  });
});

// S53.
it("a process of another time namespace on the same boot is refused", async () => {
  await play({}, async ({ world, host, client }) => {
    await client("A").acquire("L", HELD);
    const other = host.startClient("B");
    const { clock, random } = other;
    const strange = { ...other.host, timeNamespace: "another" };
    const context = { clock, random, host: strange, namespace: "", notify: () => undefined };
    const opening = host.driverFor(other).open(context);
    await expect(opening).rejects.toBeInstanceOf(DriverError);
    await expect(opening).rejects.toThrow("time namespace");
    expect(world.process("B").alive).toBe(true);
  });
});

it("a doorbell wakes the head of the queue long before its poll", async () => {
  await play({}, async ({ world, host, client }) => {
    const a = await client("A").acquire("L", { ...HELD, ttl: 60_000 });
    let at = 0;
    const waiting = client("B").acquire("L", { ...HELD, wait: "forever" });
    void waiting.then(() => (at = world.now));
    await host.process.sleep(500);
    const from = world.now;
    await a.release();
    await waiting;
    expect(at - from).toBeLessThan(5);
  });
});
