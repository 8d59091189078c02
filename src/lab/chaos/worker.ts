/** A client of a scenario in a process of its own, which the supervisor stops, kills and cuts off. */
import { connect } from "../../connect/index.ts";
import type { Driver } from "../../core/driver.ts";
import { processIdentity } from "../../runtime/process-identity.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { Held, LockClient, LockTerms } from "../clients/client.ts";
import { CoreClient, type HostProcess, type LabCapabilities } from "../clients/core-client.ts";
import { NaiveClient } from "../clients/naive-client.ts";
import { PlainClient } from "../clients/plain-client.ts";
import { RedlockClient } from "../clients/redlock-client.ts";
import { SCENARIOS } from "../scenarios/index.ts";
import { PLAIN } from "../servers/postgres-plain.ts";
import type { Tamper } from "../servers/table.ts";
import { Ledger, type Update } from "../workloads/ledger.ts";
import { Journal } from "./journal.ts";
import type { HeldFacts, Said, Task, Told, WorkerSetup } from "./messages.ts";
import { RealLedger, realDialer } from "./real-ledger.ts";
import { RealRedis } from "./redis-client.ts";
import { RemoteResource } from "./remote-resource.ts";

const setup = JSON.parse(process.argv[2] ?? "{}") as WorkerSetup;
const journal = new Journal(setup.file, setup.ops);
const me: HostProcess = {
  name: setup.name,
  incarnation: 0,
  clock: systemClock,
  random: systemRandom,
  host: processIdentity(),
  sleep: async (ms) =>
    new Promise<void>((resolve) => {
      systemClock.timer(ms, resolve, true);
    }),
};
const resource = new RemoteResource(me, journal, setup);
const leases: Held[] = [];
/** What goes on when the supervisor says so, by the number of the task that it is in. */
const stopped = new Map<number, () => void>();
const releases: (() => Promise<unknown>)[] = [];

function clientOf(): LockClient {
  const scenario = SCENARIOS.find(({ id }) => id === setup.scenario);
  if (scenario === undefined) throw new Error(`no scenario ${setup.scenario}`);
  const { lock } = scenario.arms[setup.arm];
  const servers = setup.redis.map((port) => new RealRedis(port));
  if (setup.store !== null) {
    const tamper = lock.kind === "core" ? lock.tamper : undefined;
    return new LazyCore(setup.store, tamper);
  }
  if (lock.kind === "postgres" && lock.habits !== undefined)
    return new PlainClient(journal, me, realDialer(databaseUrl()), lock.habits);
  if (lock.kind === "redlock") return new RedlockClient(journal, me, servers, lock.habits);
  const [primary] = servers;
  if (lock.kind !== "redis" || primary === undefined) throw new Error("no Redis");
  return new NaiveClient(journal, me, () => primary, lock.habits);
}

function databaseUrl(): string {
  if (setup.database === null) throw new Error("no PostgreSQL");
  return setup.database;
}

/** The production manager over the store of a URL. */
class LazyCore implements LockClient {
  readonly #url: string;
  readonly #tamper: Tamper | undefined;
  #core: CoreClient | undefined;

  constructor(url: string, tamper: Tamper | undefined) {
    this.#url = url;
    this.#tamper = tamper;
  }

  async core(): Promise<CoreClient> {
    if (this.#core !== undefined) return this.#core;
    // The lab asks for what Redis and SQLite have; what a URL leads to is not known to the compiler.
    const driver = (await connect(this.#url)) as Driver<LabCapabilities>;
    const tamper = this.#tamper;
    const wrapped: Driver<LabCapabilities> = Object.create(driver, {
      open: {
        value: async (context: Parameters<Driver["open"]>[0]) => {
          const backend = await driver.open(context);
          return tamper === undefined ? backend : tamper(backend);
        },
      },
    }) as Driver<LabCapabilities>;
    this.#core ??= new CoreClient(journal, me, tamper === undefined ? driver : wrapped, {
      handOff: "off",
      // The lab's own PostgreSQL does without fsync, which the driver refuses: only its processes crash.
      trustSettings: setup.database !== null,
    });
    return this.#core;
  }

  async acquire(lock: string, terms: LockTerms): Promise<Held | null> {
    return await (await this.core()).acquire(lock, terms);
  }

  async resume(exported: string, lock: string, terms: LockTerms): Promise<Held | null> {
    return await (await this.core()).resume(exported, lock, terms);
  }
}

const client = clientOf();

/** What is loaded and connected at the first use is there before the scenario begins. */
async function warmUp(): Promise<unknown> {
  if (client instanceof PlainClient) return await client.run(PLAIN.pid).catch(() => null);
  if (!(client instanceof LazyCore)) return null;
  // On a machine that is too busy for it the scenario itself will say so.
  return await (await client.core()).manager.inspect("warm-up").catch(() => null);
}

function factsOf(held: Held): HeldFacts {
  leases.push(held);
  const { lock, grant, token, scope } = held;
  return { id: leases.length - 1, lock, grant, token: token?.toString() ?? null, scope };
}

function lease(id: number): Held {
  const held = leases[id];
  if (held === undefined) throw new Error(`no lease ${id}`);
  return held;
}

async function acquireAll(locks: readonly string[], terms: LockTerms): Promise<void> {
  if (client instanceof LazyCore) {
    const { manager } = await client.core();
    const set = await manager.acquireAll(locks, { ttl: terms.ttlMs });
    releases.push(async () => set.release());
    return;
  }
  for (const lock of locks) {
    const held = await client.acquire(lock, terms);
    if (held === null) throw new Error(`${setup.name} did not get ${lock}`);
    releases.push(async () => held.release());
    await me.sleep(10);
  }
}

async function revoke(lock: string): Promise<void> {
  if (client instanceof LazyCore)
    await (await client.core()).manager.revoke(lock, { reason: "by hand" });
  else await new RealRedis(setup.redis[0] ?? 0).call(me, ["DEL", lock]);
}

/** One update of data in a PostgreSQL, in the task of a number. */
async function update(n: number, held: number, how: Update): Promise<boolean> {
  const stop = async (stopMs: number): Promise<void> =>
    new Promise((resolve) => {
      stopped.set(n, resolve);
      say({ n, stopMs });
    });
  const ledger = new Ledger(journal, new RealLedger(databaseUrl(), stop));
  return await ledger.update(me, lease(held), how);
}

async function perform(task: Task, n: number): Promise<unknown> {
  switch (task.do) {
    case "acquire": {
      const held = await client.acquire(task.lock, task.terms);
      return held === null ? null : factsOf(held);
    }
    case "resume": {
      const held = await client.resume?.(task.text, task.lock, task.terms);
      return held === null || held === undefined ? null : factsOf(held);
    }
    case "acquireAll":
      await acquireAll(task.locks, task.terms);
      return null;
    case "releaseAll":
      for (const release of releases.splice(0)) await release();
      return null;
    case "nothing":
      return null;
    case "believes":
      return lease(task.held).believes();
    case "release":
      await lease(task.held).release();
      return null;
    case "handOver":
      return await lease(task.held).handOver?.();
    case "renew":
      await lease(task.held).renew?.(task.ms);
      return null;
    case "sleep":
      await me.sleep(task.ms);
      return null;
    case "revoke":
      await revoke(task.lock);
      return null;
    case "claim":
      return await resource.claim(lease(task.held), task.res);
    case "read":
      return await resource.read(lease(task.held), task.res);
    case "write":
      return await resource.write(lease(task.held), task.res, task.from);
    case "update":
      return await update(n, task.held, task.how);
    case "byHand":
      return await resource.byHand(task.res, task.from);
    case "order":
      await resource.order(lease(task.held), task.business, task.key, task.body);
      return null;
  }
}

function say(said: Said): void {
  process.send?.(said);
}

process.on("message", (message: Told) => {
  const { n } = message;
  if (message.do === "go on") {
    stopped.get(n)?.();
    stopped.delete(n);
    return;
  }
  perform(message, n).then(
    (result) => {
      say({ n, result: result ?? null });
    },
    (error: unknown) => {
      say({ n, error: error instanceof Error ? error.message : String(error) });
    },
  );
});
// The supervisor is gone: nobody needs this process any more.
process.on("disconnect", () => process.exit(0));
warmUp().then(
  () => {
    say({ n: 0, result: null });
  },
  (error: unknown) => {
    say({ n: 0, error: error instanceof Error ? error.message : String(error) });
  },
);
