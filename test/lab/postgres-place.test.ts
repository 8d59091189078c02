import { expect, it } from "vitest";
import { checkAll, type PropertyId, type Verdict } from "../../src/lab/checkers/index.ts";
import { CoreClient, type CoreHeld } from "../../src/lab/clients/core-client.ts";
import { PlainClient } from "../../src/lab/clients/plain-client.ts";
import { search } from "../../src/lab/explore/search.ts";
import { postgresSubject } from "../../src/lab/explore/subjects.ts";
import { History } from "../../src/lab/history.ts";
import { simDialer } from "../../src/lab/servers/postgres-connection.ts";
import { PostgresPlace } from "../../src/lab/servers/postgres-place.ts";
import type { PostgresOptions } from "../../src/lab/servers/postgres-server.ts";
import { MODEL } from "../../src/lab/servers/postgres-statements.ts";
import type { Model } from "../../src/lab/servers/postgres-values.ts";
import { ResourceServer } from "../../src/lab/servers/resource.ts";
import { sealed } from "../../src/lab/sim/sealed.ts";
import { World } from "../../src/lab/sim/world.ts";
import { actorOf } from "../../src/lab/workloads/section.ts";

const TTL_MS = 10_000;
const HELD = { ttlMs: TTL_MS } as const;

interface Scene {
  readonly world: World;
  readonly place: PostgresPlace;
  readonly core: (name: string) => CoreClient;
  readonly resource: ResourceServer;
}

/** Plays a scene in virtual time; what it throws, the test throws. Returns what properties came to. */
async function play(
  servers: readonly PostgresOptions[],
  scene: (s: Scene) => Promise<void>,
  properties: readonly PropertyId[] = [],
): Promise<readonly Verdict["verdict"][]> {
  return await sealed(async () => {
    const history = new History({ scenario: "place", seed: "1", backend: "postgres" });
    const world = new World({ seed: 1, history });
    const place = new PostgresPlace(world, "S", ...servers);
    const state: { over: boolean; error?: Error } = { over: false };
    const core = (name: string): CoreClient => {
      const process = place.startClient(name);
      return new CoreClient(world, process, place.driverFor(process), { handOff: "off" });
    };
    const resource = new ResourceServer(world, "X", "claim");
    scene({ world, place, core, resource }).then(
      () => (state.over = true),
      (error: unknown) => {
        state.over = true;
        state.error = error instanceof Error ? error : new Error(String(error));
      },
    );
    await world.run(20 * TTL_MS, () => state.over);
    if (state.error !== undefined) throw state.error;
    expect(state.over).toBe(true);
    return checkAll(history, {}, properties).map(({ verdict }) => verdict);
  });
}

async function take(client: CoreClient, waitMs = 60_000): Promise<CoreHeld> {
  const held = await client.acquire("L", { ...HELD, waitMs });
  if (held === null) throw new Error("not granted");
  return held;
}

/** Both read, and write what is based on that; the earlier holder is late. */
async function bothWrite({ resource, world }: Scene, a: CoreHeld, b: CoreHeld): Promise<void> {
  const [first, second] = [world.process("A"), world.process("B")].map((client, i) =>
    actorOf(client, i === 0 ? a : b),
  );
  if (first === undefined || second === undefined) throw new Error("two act");
  await resource.claim(first, "R");
  const seen = await resource.read(first, "R");
  await resource.claim(second, "R");
  const fresh = await resource.read(second, "R");
  await resource.write(first, "R", seen);
  await resource.write(second, "R", fresh);
  a.believes();
  b.believes();
}

it("a standby that is behind, promoted: two believe and a token repeats, as the guarantee table says; the guard loses nothing", async () => {
  const verdicts = await play(
    [{}, {}],
    async (s) => {
      const [a, b] = [s.core("A"), s.core("B")];
      s.world.cut("S1", "S2", "lose");
      const old = await take(a);
      s.place.failOver();
      await bothWrite(s, old, await take(b));
    },
    ["P1", "P5", "P4"],
  );
  expect(verdicts).toEqual([false, false, true]);
});

it("a standby that has everything, promoted: nobody is let in early, and tokens rise", async () => {
  const verdicts = await play(
    [{}, {}],
    async (s) => {
      const old = await take(s.core("A"));
      // The log is under way for a millisecond.
      await s.world.process("A").sleep(10);
      const from = s.world.now;
      s.place.failOver();
      const next = await take(s.core("B"));
      expect(s.world.now - from).toBeGreaterThan(TTL_MS - 100);
      expect(next.token ?? 0n).toBeGreaterThan(old.token ?? 0n);
    },
    ["P1", "P5"],
  );
  expect(verdicts).toEqual([true, true]);
});

it("the server's clock is stepped forward: two believe, as the guarantee table says; the guard loses nothing", async () => {
  const verdicts = await play(
    [{}],
    async (s) => {
      const old = await take(s.core("A"));
      s.world.step("S", 60_000);
      await bothWrite(s, old, await take(s.core("B")));
    },
    ["P1", "P5", "P4"],
  );
  expect(verdicts).toEqual([false, true, true]);
});

// S29, its other half.
it("a session that is ended at the server takes a lock of the session with it, and no lease", async () => {
  await play([{}], async ({ world, place, core }) => {
    const ours = core("A");
    const held = await take(ours);
    const process = place.startClient("N");
    const dialer = simDialer(world, process, () => place.primary);
    const naive = new PlainClient(world, process, dialer, { how: "advisory" });
    await naive.acquire("N", HELD);
    // Its words do not arrive for now: the holder goes on believing.
    world.cut("S", "N", "stall", true);
    place.primary.terminate("A");
    place.primary.terminate("N");
    const other = place.startClient("M");
    const others = simDialer(world, other, () => place.primary);
    const second = new PlainClient(world, other, others, { how: "advisory" });
    expect(await second.acquire("N", { ...HELD, waitMs: 0 })).not.toBeNull();
    expect(await core("B").acquire("L", { ...HELD, waitMs: 0 })).toBeNull();
    await held.renew(TTL_MS);
    expect(held.believes()).toBe(true);
  });
});

it("a waiter is told by NOTIFY long before its poll; behind a pooler it polls", async () => {
  for (const [options, atMost] of [
    [{}, 20],
    [{ pooler: 2 }, 1000],
  ] as const)
    await play([options], async ({ world, core }) => {
      const a = await take(core("A"));
      let at = 0;
      const waiting = take(core("B")).then((held) => {
        at = world.now;
        return held;
      });
      await world.process("A").sleep(1500);
      const from = world.now;
      await a.release();
      await waiting;
      expect(at - from).toBeLessThan(atMost);
      if (atMost > 20) expect(at - from).toBeGreaterThan(20);
    });
});

it("whoever stops between the two messages of a step keeps others out for two seconds, not for as long as he stops", async () => {
  await play([{}], async ({ world, core }) => {
    const a = core("A");
    // Shared leases are taken in a step.
    const opened = await a.acquire("other", { ...HELD, shared: true });
    await opened?.release();
    const link = world.net.link("S", "A");
    link.hold = ({ label }) => label.includes("look");
    void a.acquire("L", { ...HELD, shared: true });
    await world.process("A").sleep(20);
    world.pause("A");
    link.release();
    const from = world.now;
    await take(core("B"));
    expect(world.now - from).toBeGreaterThan(1000);
    expect(world.now - from).toBeLessThan(4000);
  });
});

it("with synchronous_commit off a crash takes what was just committed, but no grant; and the sequence skips what it had not given", async () => {
  await play([{ synchronousCommit: "off" }], async ({ world, place, core }) => {
    const a = await take(core("A"));
    const { engine } = place.primary;
    const process = place.startClient("N");
    const wire = await simDialer(world, process, () => place.primary).dial(() => undefined);
    const { PLAIN } = await import("../../src/lab/servers/postgres-plain.ts");
    const seen = async (): Promise<string | undefined> => {
      const made = await simDialer(world, process, () => place.primary).dial(() => undefined);
      return (await made.run({ statement: PLAIN.readVersion, args: ["R"] }, false))[0];
    };
    await wire.run({ statement: PLAIN.addVersion, args: ["R", "7", "A"] }, false);
    expect(await seen()).toBe("7");
    place.restart();
    expect(await seen()).toBe("0");
    expect(engine.versions.get("locks", "default:L")?.grant_id).toBe(a.grant);
    expect(engine.lastValue).toBe(33n);
    await wire.run({ statement: PLAIN.readVersion, args: ["R"] }, false).catch(() => undefined);
  });
});

/** Drivers, or servers, that are wrong in one thing, and the seed from which on the exploration notices it. */
const WRONG: Readonly<Record<string, readonly [seed: number, statements: Record<string, Model>]>> =
  {
    "a step does not lock the row": [
      1,
      {
        *lockRow(at, args) {
          return at.get("locks", args[0] ?? "") === undefined ? [] : ["1"];
        },
      },
    ],
    "a grant does not look whether the lease is over": [
      1,
      {
        *grantIdle(at, args) {
          const lock = at.get("locks", args[0] ?? "");
          if (lock !== undefined && !at.engine.heldByOther(at.tx, `locks ${lock.key}`))
            at.put("locks", lock.key, { ...lock, state: 0 });
          return yield* MODEL["grantIdle"]!(at.again(), args);
        },
      },
    ],
    "a grant is told before it is on disk": [
      40,
      {
        *grantIdle(at, args) {
          const rows = yield* MODEL["grantIdle"]!(at, args);
          at.tx.sync = "off";
          return rows;
        },
      },
    ],
    "a renewal does not ask whose lease it is": [
      1,
      {
        *renewSole(_at, args) {
          const list = JSON.parse(args[0] ?? "[]") as string[][];
          return list.map((_, i) => `${i + 1}|on`);
        },
      },
    ],
    "a release frees whoever has the name": [
      32,
      {
        *releaseSole(at, args) {
          const holder = at.get("locks", args[0] ?? "")?.grant_id ?? null;
          return yield* MODEL["releaseSole"]!(at, [args[0] ?? "", holder]);
        },
      },
    ],
  };

it.each(Object.entries(WRONG))(
  "the exploration notices what is wrong: %s",
  { timeout: 60_000 },
  async (_what, [seed, statements]) => {
    const subject = postgresSubject({ model: { ...MODEL, ...statements } });
    const { found } = await search(subject, { seed, runs: 200 });
    expect(found).not.toBeNull();
  },
);
