import { processIdentity } from "../../runtime/process-identity.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { Held, LockClient, LockTerms } from "../clients/client.ts";
import type { HostProcess } from "../clients/core-client.ts";
import { NaiveClient } from "../clients/naive-client.ts";
import { PlainClient } from "../clients/plain-client.ts";
import { RedlockClient } from "../clients/redlock-client.ts";
import { SCENARIOS } from "../scenarios/index.ts";
import { PLAIN } from "../servers/postgres-plain.ts";
import { Ledger, type Update } from "../workloads/ledger.ts";
import type { Journal } from "./journal.ts";
import { LazyCore } from "./lazy-core.ts";
import type { HeldFacts, Task, WorkerSetup } from "./messages.ts";
import { RealLedger, realDialer } from "./real-ledger.ts";
import { RealRedis } from "./redis-client.ts";
import { RemoteResource } from "./remote-resource.ts";

/** One client of a scenario in a real process: does what it is told, and writes down what it sees. */
export class Performer {
  readonly #setup: WorkerSetup;
  readonly #journal: Journal;
  readonly #me: HostProcess;
  readonly #resource: RemoteResource;
  readonly #client: LockClient;
  readonly #leases: Held[] = [];
  readonly #releases: (() => Promise<unknown>)[] = [];

  constructor(setup: WorkerSetup, journal: Journal, name: string) {
    this.#setup = setup;
    this.#journal = journal;
    this.#me = {
      name,
      incarnation: 0,
      clock: systemClock,
      random: systemRandom,
      host: processIdentity(),
      sleep: async (ms) =>
        new Promise<void>((resolve) => {
          systemClock.timer(ms, resolve, true);
        }),
    };
    this.#resource = new RemoteResource(this.#me, journal, setup);
    this.#client = this.#clientOf();
  }

  #clientOf(): LockClient {
    const [setup, journal, me] = [this.#setup, this.#journal, this.#me];
    const scenario = SCENARIOS.find(({ id }) => id === setup.scenario);
    if (scenario === undefined) throw new Error(`no scenario ${setup.scenario}`);
    const { lock } = scenario.arms[setup.arm];
    const inLine = lock.kind === "redis" && lock.habits?.waits === "line";
    const servers = setup.redis.map((port) => new RealRedis(port, inLine));
    if (setup.store !== null) {
      const tamper = lock.kind === "core" ? lock.tamper : undefined;
      // The lab's own PostgreSQL does without fsync, which the driver refuses: only its processes crash.
      const how = { tamper, trustSettings: setup.store.startsWith("postgres") };
      return new LazyCore(journal, me, setup.store, how);
    }
    if (lock.kind === "postgres" && lock.habits !== undefined)
      return new PlainClient(journal, me, realDialer(this.#database()), lock.habits);
    if (lock.kind === "redlock") return new RedlockClient(journal, me, servers, lock.habits);
    const [primary] = servers;
    if (lock.kind !== "redis" || primary === undefined) throw new Error("no Redis");
    return new NaiveClient(journal, me, () => primary, lock.habits);
  }

  /** What is loaded and connected at the first use is there before the scenario begins. */
  async warmUp(): Promise<void> {
    const client = this.#client;
    // On a machine that is too busy for it the scenario itself will say so.
    if (client instanceof PlainClient) await client.run(PLAIN.pid).catch(() => undefined);
    if (client instanceof LazyCore)
      await (await client.core()).manager.inspect("warm-up").catch(() => undefined);
  }

  /** `stop`: has this process stopped for so many milliseconds; resolves when it goes on. */
  async perform(task: Task, stop: (ms: number) => Promise<void>): Promise<unknown> {
    const resource = this.#resource;
    switch (task.do) {
      case "acquire": {
        const held = await this.#client.acquire(task.lock, task.terms);
        return held === null ? null : this.#factsOf(held);
      }
      case "resume": {
        const held = await this.#client.resume?.(task.text, task.lock, task.terms);
        return held === null || held === undefined ? null : this.#factsOf(held);
      }
      case "acquireAll":
        await this.#acquireAll(task.locks, task.terms);
        return null;
      case "releaseAll":
        for (const release of this.#releases.splice(0)) await release();
        return null;
      case "nothing":
        return null;
      case "believes":
        return this.#lease(task.held).believes();
      case "release":
        await this.#lease(task.held).release();
        return null;
      case "handOver":
        return await this.#lease(task.held).handOver?.();
      case "renew":
        await this.#lease(task.held).renew?.(task.ms);
        return null;
      case "sleep":
        await this.#me.sleep(task.ms);
        return null;
      case "revoke":
        await this.#revoke(task.lock);
        return null;
      case "claim":
        return await resource.claim(this.#lease(task.held), task.res);
      case "read":
        return await resource.read(this.#lease(task.held), task.res);
      case "write":
        return await resource.write(this.#lease(task.held), task.res, task.from);
      case "update":
        return await this.#update(this.#lease(task.held), task.how, stop);
      case "byHand":
        return await resource.byHand(task.res, task.from);
      case "order":
        await resource.order(this.#lease(task.held), task.business, task.key, task.body);
        return null;
    }
  }

  #factsOf(held: Held): HeldFacts {
    this.#leases.push(held);
    const { lock, grant, token, scope } = held;
    return { id: this.#leases.length - 1, lock, grant, token: token?.toString() ?? null, scope };
  }

  #lease(id: number): Held {
    const held = this.#leases[id];
    if (held === undefined) throw new Error(`no lease ${id}`);
    return held;
  }

  #database(): string {
    const { database } = this.#setup;
    if (database === null) throw new Error("no PostgreSQL");
    return database;
  }

  async #acquireAll(locks: readonly string[], terms: LockTerms): Promise<void> {
    const client = this.#client;
    if (client instanceof LazyCore) {
      const { manager } = await client.core();
      const set = await manager.acquireAll(locks, { ttl: terms.ttlMs });
      this.#releases.push(async () => set.release());
      return;
    }
    for (const lock of locks) {
      const held = await client.acquire(lock, terms);
      if (held === null) throw new Error(`${this.#me.name} did not get ${lock}`);
      this.#releases.push(async () => held.release());
      // So that another process is as far by then, on a busy machine too.
      await this.#me.sleep(300);
    }
  }

  async #revoke(lock: string): Promise<void> {
    const client = this.#client;
    if (client instanceof LazyCore)
      await (await client.core()).manager.revoke(lock, { reason: "by hand" });
    else await new RealRedis(this.#setup.redis[0] ?? 0).call(this.#me, ["DEL", lock]);
  }

  /** One update of data in a PostgreSQL. */
  async #update(held: Held, how: Update, stop: (ms: number) => Promise<void>): Promise<boolean> {
    const ledger = new Ledger(this.#journal, new RealLedger(this.#database(), stop));
    return await ledger.update(this.#me, held, how);
  }
}
