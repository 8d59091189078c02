/**
 * Locks on a Redis server, on the primary that Sentinels tell of, or on a Redis Cluster.
 *
 * - Layout: four keys a name under one hash tag (see `lua.ts`): the lock with the exclusive lease and the token counter,
 *   the queue, what takes room beside an exclusive lease, and a record for every grant id that waits, holds or is refused.
 * - The atomic step: one script. It reads the server's clock once, brings the name up to that moment, and writes.
 * - The quick step (`quick.ts`) knows the lock key only. It takes a lock that has no lease, and gives back one whose lease is
 *   this grant's, provided that the key says that there is nothing else: no queue, offers, tombstones, nor anybody who
 *   vanished. Whatever makes one of those writes that mark in the same script; only a grant that finds none removes it.
 * - Exclusion: a grant is written only where the script saw no lease or lock-delay that runs, by that clock. A holder
 *   counts its ttl from before its request was sent, so it gives up before the server does.
 * - Tokens: max(last + 1, server's clock in µs), minted in the granting script; the counter stays for 7 days and
 *   twice the longest ttl. A block belongs to one grant: the next is minted above it.
 * - Order: a free lock is offered to the oldest live waiter, and to no one else for min(its ttl, 3 s); its process is
 *   woken by a message on its own channel, and polls in case that is lost.
 * - Late packets: no renewal and no repeated ask ends a lease sooner; a release that may be overtaken by an ask leaves a
 *   tombstone; the connection of a command that got no answer in time is destroyed; no library sends ours again.
 * - What breaks it: a failover to a replica that lacks the grant, eviction, FLUSHALL, a restart that forgets, a step
 *   of the server's clock. Then two may believe that they hold; only a guard at the resource keeps their effects apart.
 *   Tokens rise over all of that unless the new clock is behind the last grant.
 */
import type { Capabilities, Mode } from "../../core/capabilities.ts";
import {
  type Answer,
  type Ask,
  type Backend,
  type Driver,
  type DriverContext,
  DriverError,
  type Finding,
  type GoneReason,
  type Granted,
  type GrantRef,
  type Io,
  type LockRecord,
  type Release,
  type Renewal,
} from "../../core/driver.ts";
import { type Dialer, dialerOf, type RedisClient } from "./client.ts";
import type { Call } from "./connection.ts";
import { asRedisError } from "./errors.ts";
import { redisGuarantees } from "./guarantees.ts";
import { KeySpace } from "./keys.ts";
import { listNames } from "./names.ts";
import { type Checked, checkOptions, type RedisDriverOptions } from "./options.ts";
import { probeServer } from "./probe.ts";
import { type AfterTurn, afterTurn, Quick, whole } from "./quick.ts";
import { renewAll } from "./renewals.ts";
import { NotReplicatedError } from "./replicas.ts";
import { answerOf, exchangedOf, isAlone, LETTERS, reasonOf, recordOf } from "./replies.ts";
import { ATTEMPT, EXCHANGE, INSPECT, RELEASE, REVOKE } from "./scripts.ts";
import { ClusterServers, OneServer, run, type Servers } from "./servers.ts";
import { Wakes } from "./wakes.ts";

/** What the Redis driver promises. */
export interface RedisCapabilities extends Capabilities {
  readonly fencing: "volatile";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: Mode;
}

/** What it promises where locks only save work. */
export interface RedisEfficiencyCapabilities extends Capabilities {
  readonly fencing: "none";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: Mode;
}

/**
 * A driver for Redis or Valkey with the settings of a client of `ioredis` or `redis` (node-redis): for one server, for
 * Sentinels, or for a Cluster. It makes connections of its own, at the first use, without an offline queue and without
 * retries; the client itself is not used and stays yours, connected or not.
 * @throws InvalidArgumentError for an option that makes no sense
 * @example
 * ```ts
 * const locks = createLockManager(redisDriver(new Redis("redis://127.0.0.1")));
 * ```
 */
export function redisDriver(
  client: RedisClient,
  options: RedisDriverOptions & { readonly efficiencyOnly: true },
): Driver<RedisEfficiencyCapabilities>;
export function redisDriver(
  client: RedisClient,
  options?: RedisDriverOptions,
): Driver<RedisCapabilities>;
export function redisDriver(
  client: RedisClient,
  options: RedisDriverOptions = {},
): Driver<RedisCapabilities | RedisEfficiencyCapabilities> {
  const dialer = async (): Promise<Dialer> => dialerOf(client);
  return driverOf(checkOptions(options), dialer, afterTurn);
}

/** The same driver over connections of another kind, the simulator's. */
export function redisOver(
  dialer: () => Promise<Dialer>,
  turns: AfterTurn,
  options: RedisDriverOptions = {},
): Driver<RedisCapabilities | RedisEfficiencyCapabilities> {
  return driverOf(checkOptions(options), dialer, turns);
}

function driverOf(
  checked: Checked,
  dialerFor: () => Promise<Dialer>,
  turns: AfterTurn,
): Driver<RedisCapabilities | RedisEfficiencyCapabilities> {
  return {
    name: "redis",
    fencing: checked.efficiencyOnly ? "none" : "volatile",
    waiting: "queue",
    liveness: "ttl",
    clock: "server-wall",
    modes: ["exclusive", "shared", "permits"],
    ttl: { minMs: 100, stepMs: 1 },
    mints: "at-grant",
    transfer: "yes",
    retains: "yes",
    guarantees: (findings) => redisGuarantees(findings, !checked.efficiencyOnly),
    async open(context: DriverContext): Promise<Backend> {
      try {
        const dialer = await dialerFor();
        const seeds = dialer.cluster ? await dialer.seeds() : [];
        const { needed, all, replicaTimeoutMs } = checked;
        const { clock } = context;
        const rule = needed > 0 ? { needed, all, timeoutMs: replicaTimeoutMs, clock } : undefined;
        const servers = dialer.cluster
          ? new ClusterServers(dialer, clock, rule, seeds)
          : new OneServer(dialer, clock, rule);
        return new RedisBackend({ dialer, servers, context, checked, turns });
      } catch (error) {
        throw asRedisError(error);
      }
    },
  };
}

interface Parts {
  readonly dialer: Dialer;
  readonly servers: Servers;
  readonly context: DriverContext;
  readonly checked: Checked;
  readonly turns: AfterTurn;
}

class RedisBackend implements Backend {
  readonly #dialer: Dialer;
  readonly #servers: Servers;
  readonly #context: DriverContext;
  readonly #checked: Checked;
  readonly #keys: KeySpace;
  /** `undefined` where grants wait for replicas, which takes longer than all that it saves. */
  readonly #quick: Quick | undefined;
  readonly #renewing: Parameters<typeof renewAll>[0];
  readonly #channel: string;
  readonly #wakes: Wakes;
  /** Entries of this process in the queues: all are told to ask again when messages may have been lost. */
  readonly #queued = new Set<string>();
  #closed = false;

  constructor({ dialer, servers, context, checked, turns }: Parts) {
    this.#dialer = dialer;
    this.#servers = servers;
    this.#context = context;
    this.#checked = checked;
    this.#keys = new KeySpace(dialer.keyPrefix, context.namespace);
    const together = checked.needed === 0 && !dialer.cluster;
    this.#renewing = { servers, keys: this.#keys, together };
    if (checked.needed === 0)
      this.#quick = new Quick(servers, this.#keys, {
        cluster: dialer.cluster,
        fenced: this.#fenced,
        afterTurn: turns,
      });
    // One process may have several backends, and each is told only of its own entries.
    const own = Buffer.from(context.random.bytes(6)).toString("hex");
    this.#channel = this.#keys.channel(`${context.host.id}.${own}`);
    this.#wakes = new Wakes({
      dialer,
      clock: context.clock,
      random: context.random,
      channel: this.#channel,
      address: () => servers.listener(),
      onMessage: (grantId) => {
        if (!this.#closed) context.notify({ kind: "wake", grantId });
      },
      onListening: () => {
        for (const grantId of this.#queued) context.notify({ kind: "wake", grantId });
      },
    });
  }

  async attempt(ask: Ask, io: Io): Promise<Answer> {
    const dueAt = this.#dueAt(io);
    if (this.#quick?.takes(ask) === true) {
      try {
        const granted = await this.#quick.take(ask, dueAt);
        if (granted !== undefined) return granted;
      } catch (error) {
        throw asRedisError(error);
      }
      this.#quick.avoid(ask.name);
    }
    if (ask.join !== "no" && !this.#wakes.ready) await this.#wakes.start(io.timeoutMs / 2);
    const call: Call = {
      statement: ATTEMPT,
      keys: this.#keys.of(ask.name),
      args: [
        ask.grantId,
        LETTERS[ask.mode],
        String(ask.permits),
        whole(ask.ttlMs),
        whole(ask.lockDelayMs),
        ask.join,
        String(ask.tokens),
        ask.above === undefined ? "" : String(ask.above),
        this.#channel,
        ask.holder,
      ],
    };
    const reply = await this.#grant(call, ask, dueAt);
    if (isAlone(reply)) this.#quick?.retry(ask.name);
    const answer = answerOf(reply, this.#fenced);
    if (answer.kind === "busy" && answer.queued) this.#queued.add(ask.grantId);
    else this.#queued.delete(ask.grantId);
    return answer;
  }

  async renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]> {
    return await renewAll(this.#renewing, grants, this.#dueAt(io));
  }

  async release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]> {
    const dueAt = this.#dueAt(io);
    for (const { grantId } of grants) this.#queued.delete(grantId);
    const [only] = grants;
    if (grants.length === 1 && only !== undefined) {
      try {
        if (this.#quick?.givesBack(only) === true) {
          if (await this.#quick.giveBack(only, dueAt)) return [RELEASED];
          this.#quick.avoid(only.name);
        }
        return [releaseOf(await run(this.#servers, this.#releasing(only), dueAt))];
      } catch (error) {
        return [{ kind: "failed", error: asRedisError(error) }];
      }
    }
    const calls = grants.map((grant) => this.#releasing(grant));
    const outcomes = await this.#servers.runAll(calls, "other", dueAt);
    return outcomes.map((outcome) =>
      outcome.ok
        ? releaseOf(outcome.value)
        : { kind: "failed", error: asRedisError(outcome.error) },
    );
  }

  async revoke(
    order: { readonly name: string; readonly grantId: string; readonly now: boolean },
    io: Io,
  ): Promise<Release> {
    const args = [order.grantId, order.now ? "1" : "0"];
    const call = { statement: REVOKE, keys: this.#keys.of(order.name), args };
    return releaseOf(await this.#run(call, this.#dueAt(io)));
  }

  async exchange(
    from: string,
    ask: Ask,
    io: Io,
  ): Promise<Granted | { readonly kind: "gone"; readonly reason: GoneReason }> {
    const call: Call = {
      statement: EXCHANGE,
      keys: this.#keys.of(ask.name),
      args: [
        from,
        ask.grantId,
        whole(ask.ttlMs),
        whole(ask.lockDelayMs),
        String(ask.tokens),
        ask.above === undefined ? "" : String(ask.above),
        ask.holder,
      ],
    };
    return exchangedOf(await this.#grant(call, ask, this.#dueAt(io)), this.#fenced);
  }

  async inspect(name: string, io: Io): Promise<LockRecord> {
    const call = { statement: INSPECT, keys: this.#keys.of(name), args: [] };
    return recordOf(name, await this.#run(call, this.#dueAt(io)), this.#fenced);
  }

  async list(
    page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
    io: Io,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    const dueAt = this.#dueAt(io);
    try {
      return await listNames(this.#servers, this.#keys, page, dueAt);
    } catch (error) {
      throw asRedisError(error);
    }
  }

  async probe(io: Io): Promise<readonly Finding[]> {
    const dueAt = this.#dueAt(io);
    const { needed, efficiencyOnly } = this.#checked;
    const expected = { cluster: this.#dialer.cluster, efficiencyOnly, replicas: needed };
    try {
      const servers = await this.#servers.primaries(dueAt);
      const found = await Promise.all(
        servers.map(async (server) =>
          probeServer(await server.connection(dueAt), this.#context.clock, expected, dueAt),
        ),
      );
      // Servers that agree are told of once.
      const seen = new Map<string, Finding>();
      for (const finding of found.flat()) seen.set(JSON.stringify(finding), finding);
      return [...seen.values()];
    } catch (error) {
      throw asRedisError(error);
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#wakes.close();
    await this.#servers.close();
    await this.#dialer.close();
  }

  get #fenced(): boolean {
    return !this.#checked.efficiencyOnly;
  }

  #dueAt(io: Io): number {
    if (this.#closed)
      throw new DriverError("unavailable", "not-applied", "This Redis backend was closed.");
    return this.#context.clock.mono() + io.timeoutMs;
  }

  async #run(call: Call, dueAt: number): Promise<unknown> {
    try {
      return await run(this.#servers, call, dueAt);
    } catch (error) {
      throw asRedisError(error);
    }
  }

  /** A step that may grant: on as many replicas as it must be, or not at all. */
  async #grant(call: Call, ask: Ask, dueAt: number): Promise<unknown> {
    if (this.#checked.needed === 0) return await this.#run(call, dueAt);
    const [outcome] = await this.#servers.runAll([call], "acquire", dueAt);
    if (outcome?.ok === true) return outcome.value;
    const error = outcome?.error;
    if (!(error instanceof NotReplicatedError)) throw asRedisError(error);
    const undo = this.#releasing({ ...ask, refuseLateMs: 0 });
    const undone = await run(this.#servers, undo, dueAt).then(
      () => true,
      () => false,
    );
    throw new DriverError(
      "unavailable",
      undone ? "not-applied" : "unknown",
      `${error.message}; the grant was ${undone ? "undone" : "not undone yet"}`,
      { cause: error },
    );
  }

  #releasing(grant: Pick<GrantRef, "name" | "grantId" | "refuseLateMs" | "raiseTo">): Call {
    const { name, grantId, refuseLateMs, raiseTo } = grant;
    const raise = raiseTo === undefined ? "" : String(raiseTo);
    return {
      statement: RELEASE,
      keys: this.#keys.of(name),
      args: [grantId, whole(refuseLateMs ?? 0), raise],
    };
  }
}

const RELEASED: Release = { kind: "released" };

function releaseOf(reply: unknown): Release {
  const [done, code] = reply as readonly [number, number];
  return done === 1 ? RELEASED : { kind: "gone", reason: reasonOf(code) };
}
