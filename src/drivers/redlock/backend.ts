import {
  type Answer,
  type Ask,
  type Backend,
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
import type { Outcome } from "../redis/client.ts";
import type { Call } from "../redis/connection.ts";
import { asRedisError } from "../redis/errors.ts";
import { tooFew } from "./errors.ts";
import { ExtendRound } from "./extend-round.ts";
import { type Grant, Grants, holdsOf, straysOf } from "./grants.ts";
import { listNames } from "./names.ts";
import type { Checked } from "./options.ts";
import { refusals } from "./options.ts";
import { noAnswer, type Panel } from "./panel.ts";
import { probeServers } from "./probe.ts";
import { type EndReply, endReply, extendReply, inspectReply, worstReason } from "./replies.ts";
import type { Failure } from "./rounds.ts";
import { INSPECT, RELEASE, RESTORE, REVOKE } from "./scripts.ts";
import { buryStrays, ms, type RoundEnd, TakeRound } from "./take-round.ts";
import { busyOf, endOf, recordOf } from "./tally.ts";

/** Taken off what a grant has left, beside the share of its ttl: servers count whole milliseconds. */
const DRIFT_MS = 2;
/** A late packet is no later than this: for so long, or the ttl, an id that was given back is refused. */
const BURY_MS = 60_000;

type Exchanged = Granted | { readonly kind: "gone"; readonly reason: GoneReason };

/** A live backend over the servers of one panel. */
export class RedlockBackend implements Backend {
  readonly #panel: Panel;
  readonly #context: DriverContext;
  readonly #checked: Checked;
  readonly #grants: Grants;
  #rounds = 0;

  constructor(panel: Panel, context: DriverContext, checked: Checked) {
    this.#panel = panel;
    this.#context = context;
    this.#checked = checked;
    this.#grants = new Grants(panel.clock);
  }

  async attempt(ask: Ask, io: Io): Promise<Answer> {
    this.#open();
    if (ask.mode !== "exclusive")
      throw new DriverError(
        "config",
        "not-applied",
        refusals(this.#panel.size, this.#checked.quorum)[ask.mode],
      );
    const known = this.#grants.get(ask.name, ask.grantId);
    if (known?.granted !== undefined) {
      const again = await this.#again(known, known.granted, ask, io);
      return again.kind === "gone" ? { kind: "vanished" } : again;
    }
    const { grant, round, end } = await this.#round(ask, "", io);
    if (end.kind === "granted") return this.#granted(grant, round, ask, end.token);
    if (end.kind === "superseded") throw superseded();
    if (end.why !== "refused") throw await this.#failure(round, end.why);
    const said = (kind: "buried" | "used-up"): boolean =>
      round.replies.some((reply) => reply?.kind === kind);
    if (said("used-up")) throw await this.#failure(round, "used-up");
    return said("buried") ? { kind: "vanished" } : this.#busy(round);
  }

  async exchange(from: string, ask: Ask, io: Io): Promise<Exchanged> {
    this.#open();
    const known = this.#grants.get(ask.name, ask.grantId);
    if (known?.granted !== undefined) return await this.#again(known, known.granted, ask, io);
    const { grant, round, end } = await this.#round(ask, from, io);
    if (end.kind === "granted") return this.#granted(grant, round, ask, end.token);
    if (end.kind === "superseded") throw superseded();
    if (end.why !== "refused") throw await this.#failure(round, end.why);
    const reasons = round.replies.flatMap((reply) =>
      reply?.kind === "gone" ? [reply.reason] : [],
    );
    return { kind: "gone", reason: worstReason(reasons) };
  }

  async renew(grants: readonly GrantRef[], io: Io): Promise<readonly Renewal[]> {
    this.#open();
    const batch = grants.map((ref) => this.#extended(ref));
    const renewals = await new ExtendRound(this.#panel, this.#checked.quorum, batch).run(
      this.#dueAt(io),
    );
    for (const [i, ref] of grants.entries()) {
      const grant = this.#grants.get(ref.name, ref.grantId);
      if (grant !== undefined && renewals[i]?.kind === "renewed")
        grant.until = Math.max(grant.until, this.#now() + ref.ttlMs + ref.lockDelayMs);
    }
    return renewals;
  }

  async release(grants: readonly GrantRef[], io: Io): Promise<readonly Release[]> {
    this.#open();
    const lates = grants.map(({ name, grantId, ttlMs, refuseLateMs }) => {
      const grant = this.#grants.get(name, grantId);
      const strays = grant === undefined ? [] : straysOf(grant);
      grant?.round?.supersede();
      // What may still arrive somewhere must find the id buried there.
      return (server: number): number =>
        Math.max(
          refuseLateMs ?? 0,
          strays.some((stray) => stray.server === server) ? Math.max(ttlMs, BURY_MS) : 0,
        );
    });
    const releases = await this.#endAll(grants.length, io, (server) =>
      grants.map(({ name, grantId, raiseTo }, i): Call => {
        const keys = this.#panel.keysOf(server, name);
        return {
          statement: RELEASE,
          keys: [keys.lock, keys.buried(grantId)],
          args: [
            grantId,
            ms(lates[i]?.(server) ?? 0),
            raiseTo === undefined ? "" : String(raiseTo),
          ],
        };
      }),
    );
    for (const [i, { name, grantId }] of grants.entries())
      if (releases[i]?.kind !== "failed") this.#grants.delete(name, grantId);
    return releases;
  }

  async revoke(
    order: { readonly name: string; readonly grantId: string; readonly now: boolean },
    io: Io,
  ): Promise<Release> {
    this.#open();
    const [release] = await this.#endAll(1, io, (server) => {
      const keys = this.#panel.keysOf(server, order.name);
      return [
        {
          statement: REVOKE,
          keys: [keys.lock, keys.buried(order.grantId)],
          args: [order.grantId, order.now ? "1" : "0"],
        },
      ];
    });
    if (release === undefined) throw noAnswer();
    if (release.kind === "failed") throw release.error;
    return release;
  }

  async inspect(name: string, io: Io): Promise<LockRecord> {
    this.#open();
    const { quorum, efficiencyOnly } = this.#checked;
    const outcomes = await this.#askAll(io, (server) => [
      { statement: INSPECT, keys: [this.#panel.keysOf(server, name).lock], args: [] },
    ]);
    const firsts = outcomes.map(([first]) => first);
    const seen = firsts.flatMap((first) => (first?.ok === true ? [inspectReply(first.value)] : []));
    if (seen.length < quorum) throw this.#tooFew(seen.length, firsts);
    return recordOf(name, seen, quorum, firsts.length - seen.length, !efficiencyOnly);
  }

  async list(
    page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
    io: Io,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    this.#open();
    return await listNames(this.#panel, this.#checked.quorum, page, this.#now() + io.timeoutMs);
  }

  async probe(io: Io): Promise<readonly Finding[]> {
    this.#open();
    return await probeServers(this.#panel, this.#checked, this.#now() + io.timeoutMs);
  }

  async close(): Promise<void> {
    for (const { round } of this.#grants.all()) round?.supersede();
    await this.#panel.close();
  }

  #open(): void {
    if (this.#panel.closed)
      throw new DriverError("unavailable", "not-applied", "This Redlock backend was closed.");
  }

  #now(): number {
    return this.#panel.clock.mono();
  }

  #dueAt(io: Io): number {
    return this.#now() + Math.min(this.#checked.nodeTimeoutMs, io.timeoutMs * 0.9);
  }

  /** One round of a grant id, in place of any earlier one of it. */
  async #round(
    ask: Ask,
    from: string,
    io: Io,
  ): Promise<{ readonly grant: Grant; readonly round: TakeRound; readonly end: RoundEnd }> {
    const { quorum, nodeTimeoutMs, driftRatio } = this.#checked;
    const grant = this.#grants.get(ask.name, ask.grantId) ?? this.#grants.add(ask);
    grant.strays = straysOf(grant);
    grant.round?.supersede();
    const startedAt = this.#now();
    const share = (of: number): number => startedAt + io.timeoutMs * of;
    this.#rounds += 1;
    const round = new TakeRound({
      panel: this.#panel,
      ask,
      from,
      terms: {
        servers: this.#panel.size,
        quorum,
        value: String(this.#rounds),
        count: ask.tokens,
        above: ask.above ?? 0n,
        deadline: startedAt + ask.ttlMs * (1 - driftRatio) - DRIFT_MS,
      },
      takeDueAt: Math.min(startedAt + nodeTimeoutMs, share(0.5)),
      dueAt: Math.min(startedAt + 2 * nodeTimeoutMs, share(0.8)),
      undoDueAt: Math.min(startedAt + 3 * nodeTimeoutMs, share(0.95)),
    });
    grant.round = round;
    const end = await round.run();
    // What an earlier round left is in this one's hands where a server gave it back.
    const adopted = round.holds;
    grant.strays = grant.strays.filter(({ server, value }) => adopted[server]?.value !== value);
    if (end.kind === "failed") {
      buryStrays(this.#panel, ask, grant.strays);
      grant.strays = [];
      this.#forgetWhenSettled(grant);
    }
    return { grant, round, end };
  }

  /** A round that came to nothing is kept for as long as anything of it is under way. */
  #forgetWhenSettled(grant: Grant): void {
    const { ask, round } = grant;
    if (round?.settled === true && round.strays.length === 0)
      this.#grants.delete(ask.name, ask.grantId);
  }

  #granted(grant: Grant, round: TakeRound, ask: Ask, token: bigint): Granted {
    let before: bigint | null = null;
    let over = false;
    for (const reply of round.replies) {
      if (reply?.kind !== "took" || reply.before === null) continue;
      // Of those who know the last grant, one that saw its release is enough.
      if (before === null || reply.before > before) ({ before, over } = reply);
      else if (reply.before === before) over &&= reply.over;
    }
    const fenced = !this.#checked.efficiencyOnly;
    const granted: Granted = {
      kind: "granted",
      tokens: fenced ? { first: token, count: ask.tokens } : null,
      takenOver: over,
      previousToken: fenced ? before : null,
      ttlMs: Math.ceil(ask.ttlMs),
    };
    grant.ask = ask;
    grant.granted = granted;
    grant.until = this.#now() + ask.ttlMs + ask.lockDelayMs;
    return granted;
  }

  /** A repeated ask for what was granted: it is extended, and never made again. */
  async #again(grant: Grant, granted: Granted, ask: Ask, io: Io): Promise<Exchanged> {
    const batch = [this.#extended(ask)];
    const [renewal] = await new ExtendRound(this.#panel, this.#checked.quorum, batch).run(
      this.#dueAt(io),
    );
    if (renewal === undefined) throw noAnswer();
    if (renewal.kind === "failed") throw renewal.error;
    if (renewal.kind === "gone") return renewal;
    grant.until = Math.max(grant.until, this.#now() + ask.ttlMs + ask.lockDelayMs);
    return { ...granted, ttlMs: renewal.ttlMs };
  }

  #extended(ref: GrantRef): ConstructorParameters<typeof ExtendRound>[2][number] {
    const grant = this.#grants.get(ref.name, ref.grantId);
    const none = new Array<null>(this.#panel.size).fill(null);
    return {
      ref,
      holds: (grant === undefined ? undefined : holdsOf(grant)) ?? none,
      onHolds: (holds) => {
        if (grant !== undefined) grant.holds = holds;
      },
      onRestore: (server) => {
        if (grant?.granted !== undefined) void this.#restore(grant, grant.granted, ref, server);
      },
    };
  }

  async #restore(grant: Grant, granted: Granted, ref: GrantRef, server: number): Promise<void> {
    const { ask } = grant;
    // It may have been given back since.
    if (this.#panel.closed || this.#grants.get(ask.name, ask.grantId) !== grant) return;
    this.#rounds += 1;
    const value = String(this.#rounds);
    const stray = { server, value };
    grant.strays = [...grant.strays, stray];
    const keys = this.#panel.keysOf(server, ask.name);
    const { tokens, previousToken, takenOver } = granted;
    const [outcome] = await this.#panel.askWithin(
      server,
      [
        {
          statement: RESTORE,
          keys: [keys.lock, keys.buried(ask.grantId), keys.buried(ask.grantId, value)],
          args: [
            ask.grantId,
            value,
            ms(ref.ttlMs),
            ms(ref.lockDelayMs),
            ask.holder,
            String(tokens?.first ?? 1n),
            String(tokens?.count ?? 1),
            previousToken === null ? "" : String(previousToken),
            takenOver ? "1" : "0",
          ],
        },
      ],
      this.#now() + this.#checked.nodeTimeoutMs,
    );
    if (outcome?.ok !== true) return;
    grant.strays = grant.strays.filter((each) => each !== stray);
    const reply = extendReply(outcome.value);
    if (reply.kind === "kept") grant.holds = holdsOf(grant)?.with(server, reply.hold);
  }

  #busy(round: TakeRound): Answer {
    const { quorum, retryDelayMs } = this.#checked;
    const obstacles = round.replies.flatMap((reply) =>
      reply?.kind === "busy" ? [reply.obstacle] : [],
    );
    const silent = round.replies.filter((reply) => reply === undefined).length;
    return busyOf(
      obstacles,
      { taken: round.taken, silent, quorum },
      { delayMs: retryDelayMs, chance: this.#context.random.unit() },
    );
  }

  async #failure(round: TakeRound, why: Exclude<Failure, "refused">): Promise<DriverError> {
    const { quorum } = this.#checked;
    const outcome = (await round.undone()) ? "not-applied" : "unknown";
    if (why === "used-up")
      return new DriverError("config", outcome, "The fencing tokens of this name are used up.");
    if (why === "late")
      return new DriverError(
        "timeout",
        outcome,
        "the answers of a quorum came when the ttl was over",
      );
    const votes = { got: round.taken, needed: quorum, servers: this.#panel.size };
    return tooFew(votes, round.causes, outcome);
  }

  #tooFew(got: number, outcomes: readonly (Outcome | undefined)[]): DriverError {
    const causes = outcomes.flatMap((outcome, server) =>
      outcome?.ok === false
        ? [{ label: this.#panel.label(server), error: asRedisError(outcome.error) }]
        : [],
    );
    const votes = { got, needed: this.#checked.quorum, servers: this.#panel.size };
    return tooFew(votes, causes, "not-applied");
  }

  /** The same to every server; resolves when each has answered or is silent. */
  async #askAll(
    io: Io,
    callsFor: (server: number) => readonly Call[],
  ): Promise<readonly (readonly Outcome[])[]> {
    const dueAt = this.#dueAt(io);
    return await Promise.all(
      this.#panel.seats.map(async (_, server) =>
        this.#panel.askWithin(server, callsFor(server), dueAt),
      ),
    );
  }

  /** Ends leases everywhere; each is answered as soon as enough servers have said so. */
  async #endAll(
    count: number,
    io: Io,
    callsFor: (server: number) => readonly Call[],
  ): Promise<readonly Release[]> {
    if (count === 0) return [];
    const dueAt = this.#dueAt(io);
    const { quorum } = this.#checked;
    const label = (server: number): string => this.#panel.label(server);
    const words = Array.from({ length: count }, () =>
      new Array<EndReply | undefined>(this.#panel.size).fill(undefined),
    );
    return await new Promise((resolve) => {
      for (let server = 0; server < this.#panel.size; server += 1)
        void this.#panel.askWithin(server, callsFor(server), dueAt).then((outcomes) => {
          for (const [i, outcome] of outcomes.entries()) {
            const word = words[i];
            if (word !== undefined) word[server] = endReply(outcome);
          }
          const ends = words.map((word) => endOf(word, quorum, label));
          if (ends.every((end) => end !== undefined)) resolve(ends);
        });
    });
  }
}

function superseded(): DriverError {
  return new DriverError("unavailable", "unknown", "another request for this lock took its place");
}
