/**
 * Locks over several independent Redis servers, of which a quorum must agree; with a fencing token that is sound.
 *
 * - Layout: one hash a name on every server (see `scripts.ts`): the tenure of one grant id under one round's value, the
 *   number c that the server minted for it, and the highest number that it ever minted or was told of.
 * - The atomic step: one script on one server. Over all servers it is a round (`rounds.ts`): take; with a quorum, T =
 *   max(c); write T back where value *and* c still match; granted when a quorum confirmed and time is left by a second
 *   look at the clock. Otherwise undone everywhere, also where the answer was lost.
 * - Exclusion: a server has one tenure at a time until its end by its own clock, and two quorums share a server. The ttl
 *   counts from before the first request was sent. An extension needs a quorum of the very tenures of the grant, and
 *   makes nothing below one (`extension.ts`).
 * - Tokens: two grants share a server in their write-back quorums. There the later one's c was minted after the earlier
 *   one's token was written back, so it is above it, and the later token is no smaller. No clock is needed for that.
 * - What breaks it: servers that forget (a restart without disk, eviction, FLUSHALL) or whose clock steps, once they are
 *   more than 2q − N − 1 since the name's last grant: then two quorums may share only servers that forgot. A guard at
 *   the resource keeps effects apart even then.
 * - No queue: who waits asks again, at random times. No semaphores: see `refusals`.
 */
import type { Capabilities } from "../../core/capabilities.ts";
import type { Backend, Driver, DriverContext } from "../../core/driver.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { RedisClient } from "../redis/client.ts";
import { asRedisError } from "../redis/errors.ts";
import { KeySpace } from "../redis/keys.ts";
import { RedlockBackend } from "./backend.ts";
import { redlockGuarantees } from "./guarantees.ts";
import { type Checked, checkOptions, type RedlockDriverOptions, refusals } from "./options.ts";
import { Panel } from "./panel.ts";
import { connectTo, type LockServer } from "./servers.ts";

/** What the Redlock driver promises. */
export interface RedlockCapabilities extends Capabilities {
  readonly fencing: "volatile";
  readonly waiting: "poll";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: "exclusive";
}

/** What it promises where locks only save work. */
export interface RedlockEfficiencyCapabilities extends Capabilities {
  readonly fencing: "none";
  readonly waiting: "poll";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: "exclusive";
}

type AnyCapabilities = RedlockCapabilities | RedlockEfficiencyCapabilities;

/** How long opening waits for a quorum to answer. */
const GREETING_MS = 2000;
/** Keys of ours begin with this, after the client's own prefix: the single-server driver uses other ones. */
const PREFIX = "redlock:";

/**
 * A driver over the servers of these clients, of `ioredis` or `redis` (node-redis): at least three, independent of each
 * other, each with a client of its own. It makes connections of its own, at the first use; the clients only lend their
 * settings and stay yours. Replicas of these servers are no use: a promoted one that lacks a grant counts as a server
 * that forgot.
 * @throws InvalidArgumentError for too few servers, a quorum of half or less, or an option that makes no sense
 * @example
 * ```ts
 * const servers = ["redis://a", "redis://b", "redis://c"].map((url) => new Redis(url, { lazyConnect: true }));
 * const locks = createLockManager(redlockDriver(servers));
 * ```
 */
export function redlockDriver(
  clients: readonly RedisClient[],
  options: RedlockDriverOptions & { readonly efficiencyOnly: true },
): Driver<RedlockEfficiencyCapabilities>;
export function redlockDriver(
  clients: readonly RedisClient[],
  options?: RedlockDriverOptions,
): Driver<RedlockCapabilities>;
export function redlockDriver(
  clients: readonly RedisClient[],
  options: RedlockDriverOptions = {},
): Driver<AnyCapabilities> {
  const given: unknown = clients;
  if (!Array.isArray(given))
    throw new InvalidArgumentError("Expected a list of clients, one for each independent server.");
  if (new Set(clients).size < clients.length)
    throw new InvalidArgumentError(
      "Expected a client for each independent server, got the same client twice.",
    );
  const checked = checkOptions(options, clients.length);
  return driverOf(checked, clients.length, async (context) => {
    const servers: LockServer[] = [];
    try {
      for (const [i, client] of clients.entries())
        servers.push(await connectTo(client, i + 1, context.clock));
      await greet(servers, checked.quorum, context);
      return backendOver(servers, context, checked);
    } catch (error) {
      for (const server of servers) await server.close();
      throw asRedisError(error);
    }
  });
}

/**
 * The same driver over servers that are reached in another way, the simulator's. What they answer is what the scripts
 * return.
 */
export function redlockOver(
  serversOf: (context: DriverContext) => readonly LockServer[],
  count: number,
  options: RedlockDriverOptions = {},
): Driver<AnyCapabilities> {
  const checked = checkOptions(options, count);
  return driverOf(checked, count, async (context) =>
    backendOver(serversOf(context), context, checked),
  );
}

/**
 * Connects to a quorum before the first lease counts its ttl, or finds out that it cannot: what is not there is told by
 * the first use.
 */
async function greet(
  servers: readonly LockServer[],
  quorum: number,
  { clock }: DriverContext,
): Promise<void> {
  // One that is slow to answer is not given up for it: it may be there for the first use.
  const dueAt = clock.mono() + 5 * GREETING_MS;
  await new Promise<void>((resolve) => {
    const timer = clock.timer(GREETING_MS, resolve);
    let [answered, failed] = [0, 0];
    const done = (): void => {
      if (answered < quorum && failed <= servers.length - quorum) return;
      timer.cancel();
      resolve();
    };
    for (const server of servers)
      server.send(["PING"], dueAt).then(
        () => {
          answered += 1;
          done();
        },
        () => {
          failed += 1;
          done();
        },
      );
  });
}

function driverOf(
  checked: Checked,
  servers: number,
  open: (context: DriverContext) => Promise<Backend>,
): Driver<AnyCapabilities> {
  return {
    name: "redlock",
    fencing: checked.efficiencyOnly ? "none" : "volatile",
    waiting: "poll",
    liveness: "ttl",
    clock: "server-wall",
    modes: ["exclusive"],
    refusals: refusals(servers, checked.quorum),
    ttl: { minMs: 500, stepMs: 1 },
    mints: "at-grant",
    transfer: "yes",
    retains: "yes",
    guarantees: (findings) =>
      redlockGuarantees(findings, {
        servers,
        quorum: checked.quorum,
        fenced: !checked.efficiencyOnly,
      }),
    open,
  };
}

function backendOver(
  servers: readonly LockServer[],
  context: DriverContext,
  checked: Checked,
): Backend {
  const seats = servers.map((server) => ({
    server,
    keys: new KeySpace(`${server.keyPrefix}${PREFIX}`, context.namespace),
  }));
  return new RedlockBackend(new Panel(seats, context.clock), context, checked);
}
