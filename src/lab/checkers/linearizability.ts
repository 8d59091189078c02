import type { Ev } from "../history.ts";
import { FREE, type LockModel, type LockState } from "./models.ts";
import { type KnownTenure, type Misplaced, opsOf, placeInOrder, type Span } from "./tenures.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { searchOrder } from "./wgl.ts";
import { at, name, who } from "./words.ts";
import type { World } from "./world.ts";

/** Grants after which a lock that is quiet is judged, so that they can be forgotten. */
const SEGMENT = 128;

interface Segment {
  readonly tenures: Map<string, KnownTenure>;
  /** Calls that have no answer yet, by number. */
  readonly calls: Map<number, Ev>;
  state: LockState;
  /** The grant of the latest lease: whoever it is handed to has what is left of its record's ttl. */
  record: { readonly grant: string; readonly expiresFrom: number } | undefined;
  /** The last end in the segments before. */
  from: number;
  permits: number | undefined;
  shared: boolean;
  over: number;
}

/**
 * P12. There is an order of all calls, each within its time, that a lock allows: one owner, who alone may renew and
 * release; tokens that rise; expiry only when a ttl has passed since the last answered renewal was sent. Where every
 * grant has a token of its own the order is known (greedy), else it is searched, with a bound.
 */
class Linearizability extends Judge {
  readonly #segments = new Map<string, Segment>();
  readonly #model: LockModel | undefined = this.options.model;
  #remembered = 0;

  step(event: Ev, world: World): void {
    const { f, lock, op, k } = event;
    if (f === "revoke") this.#revoked(event, world);
    if (lock === undefined || (f !== "acquire" && f !== "renew" && f !== "release")) return;
    const segment = this.#segment(lock);
    if (k === "invoke") {
      if (op !== undefined) segment.calls.set(op, event);
      return;
    }
    const call = op === undefined ? undefined : segment.calls.get(op);
    if (op !== undefined) segment.calls.delete(op);
    this.#answered(segment, event, call);
    if (segment.tenures.size >= SEGMENT && f === "release" && isQuiet(segment))
      this.#judge(lock, segment, world);
    if (this.#remembered <= this.limit) return;
    this.undecided(`the calls of ${name(lock)} overlap without end: more than are remembered`);
    this.#forget(segment);
  }

  protected override end(world: World): void {
    for (const [lock, segment] of this.#segments) {
      for (const call of segment.calls.values())
        this.#answered(segment, { ...call, k: "info" }, call);
      this.#judge(lock, segment, world);
    }
  }

  #answered(segment: Segment, event: Ev, call: Ev | undefined): void {
    const { f, k, token } = event;
    if (event.permits !== undefined) segment.permits = event.permits;
    if ((event.mode ?? call?.mode) === "shared") segment.shared = true;
    const owner = this.#ownerOf(event, call);
    if (owner === undefined || k === "fail") return;
    const must = k === "ok";
    const span: Span = {
      call: (call?.t ?? (must ? -Infinity : event.t)) - this.epsilon,
      ret: must ? event.t + this.epsilon : Infinity,
      must,
      event,
    };
    const ttl = event.ttl ?? call?.ttl;
    const known = segment.tenures.get(owner);
    if (f === "acquire" && (known === undefined || this.#reentrant)) {
      const key = known === undefined ? owner : `${owner} ${segment.tenures.size}`;
      const expiresFrom = this.#recordOf(segment, span, ttl);
      segment.tenures.set(key, {
        owner,
        acquire: span,
        token,
        renewals: [],
        release: undefined,
        expiresFrom,
      });
      this.#remembered += 1;
      return;
    }
    if (known === undefined) return;
    if (f === "acquire") {
      // Asked again under the same grant: the first call may be the one that did it.
      known.token ??= token;
      if (!must) return;
      known.acquire.must = true;
      known.acquire.ret = Math.min(known.acquire.ret, span.ret);
    } else if (f === "renew") {
      known.renewals.push(span);
      this.#remembered += 1;
    } else if (this.#reentrant) this.#releaseLast(segment, owner, span);
    else if (known.release === undefined || span.must) known.release = span;
    if (must && f !== "release" && ttl !== undefined) {
      known.expiresFrom = Math.max(known.expiresFrom, span.call + ttl);
      const { grant } = event;
      if (grant !== undefined) segment.record = { grant, expiresFrom: known.expiresFrom };
    }
  }

  /** Until when the server keeps a new lease at least: inside a process one record goes from hand to hand. */
  #recordOf(segment: Segment, { must, call, event }: Span, ttl: number | undefined): number {
    const { grant } = event;
    if (grant !== undefined && segment.record?.grant === grant) return segment.record.expiresFrom;
    const expiresFrom = must && ttl !== undefined ? call + ttl : -Infinity;
    segment.record = grant === undefined ? undefined : { grant, expiresFrom };
    return expiresFrom;
  }

  get #reentrant(): boolean {
    return this.#model?.kind === "mutex" && (this.#model.reentrant ?? 1) > 1;
  }

  /** The entry that this release of a reentrant lock ends. */
  #releaseLast(segment: Segment, owner: string, release: Span): void {
    const entries = [...segment.tenures.values()].filter(
      (tenure) => tenure.owner === owner && tenure.release === undefined,
    );
    const last = entries.at(-1);
    if (last !== undefined) last.release = release;
  }

  #ownerOf(event: Ev, call: Ev | undefined): string | undefined {
    if (this.#reentrant) return `${event.p} ${event.inc}`;
    const grant = event.grant ?? call?.grant;
    const token = event.token ?? call?.token;
    if (grant === undefined) return undefined;
    return token === undefined ? grant : `${grant} ${token.toString()}`;
  }

  #revoked(event: Ev, world: World): void {
    const { lease } = world;
    if (lease === undefined) return;
    const owner = this.#ownerOf(lease.acquired, undefined);
    const tenure = this.#segments.get(lease.lock)?.tenures.get(owner ?? "");
    if (tenure !== undefined && event.grant === lease.grant) tenure.expiresFrom = -Infinity;
  }

  #judge(lock: string, segment: Segment, world: World): void {
    const tenures = [...segment.tenures.values()];
    this.#forget(segment);
    if (tenures.length === 0 || segment.shared) return;
    this.judged += tenures.length;
    const certain = tenures.filter(({ acquire, token }) => acquire.must || token !== undefined);
    const tokens = new Set(certain.map(({ token }) => token));
    const fenced = !tokens.has(undefined);
    const model = this.#modelOf(segment, fenced);
    if (model === undefined) {
      this.undecided(`how many permits ${name(lock)} has is not recorded`);
      return;
    }
    const simple = model.kind === "mutex" && model.fenced === true && !this.#reentrant;
    if (simple && fenced && tokens.size === certain.length)
      this.#place(lock, segment, certain, world);
    else this.#search(lock, segment, tenures, model, world);
  }

  #modelOf(segment: Segment, fenced: boolean): LockModel | undefined {
    if (this.#model !== undefined) return this.#model;
    const permits = [...segment.tenures.values()].some(
      ({ acquire }) => acquire.event.mode === "permits",
    );
    if (segment.permits !== undefined) return { kind: "permits", permits: segment.permits };
    return permits ? undefined : { kind: "mutex", fenced };
  }

  #place(lock: string, segment: Segment, tenures: KnownTenure[], world: World): void {
    tenures.sort((a, b) => ((a.token ?? 0n) < (b.token ?? 0n) ? -1 : 1));
    const first = tenures[0];
    if (first?.token !== undefined && first.token <= segment.state.token)
      this.violated(
        `${who(first.acquire.event)} was granted ${name(lock)} at ${at(first.acquire.event.t, world.origin)} with a token that is not above ${segment.state.token.toString()}, which was given and returned before.`,
        [first.acquire.event],
      );
    const result = placeInOrder(tenures, segment.from);
    segment.state = { holders: [], token: tenures.at(-1)?.token ?? segment.state.token };
    if ("misplaced" in result) this.#tell(lock, result.misplaced, world);
    else segment.from = result.end;
  }

  #tell(lock: string, { tenure, previous, kind, earliest }: Misplaced, world: World): void {
    const { acquire, release, renewals } = tenure;
    const event = kind === "released too late" ? (release?.event ?? acquire.event) : acquire.event;
    const when = at(event.t, world.origin);
    const inTheWay =
      previous === undefined
        ? "a grant before it"
        : `${who(previous.acquire.event)}, which comes before it by its token,`;
    const said = {
      "granted too early": `was granted ${name(lock)} by ${when}`,
      "released too late": `had released ${name(lock)} by ${when}`,
      "renewed when over": `had renewed ${name(lock)} before it could hold it`,
    }[kind];
    this.violated(
      `${who(event)} ${said}, but ${inTheWay} cannot have been over before ${at(earliest, world.origin)}.`,
      [
        previous?.acquire.event,
        previous?.renewals.at(-1)?.event,
        previous?.release?.event,
        acquire.event,
        renewals.at(-1)?.event,
        event,
      ],
    );
  }

  #search(
    lock: string,
    segment: Segment,
    tenures: readonly KnownTenure[],
    model: LockModel,
    world: World,
  ): void {
    const result = searchOrder(opsOf(tenures), model, segment.state, this.options.steps ?? 2e6);
    const highest = tenures.reduce(
      (token, tenure) =>
        tenure.token !== undefined && tenure.token > token ? tenure.token : token,
      segment.state.token,
    );
    segment.state = {
      holders: [],
      token: model.kind === "mutex" && model.fenced === true ? highest : 0n,
    };
    if (result.verdict === true) return;
    if (result.verdict === "unknown") {
      this.undecided(
        `the order of the calls on ${name(lock)} was not decided in ${result.steps} steps`,
      );
      return;
    }
    const { stuck, state } = result;
    const holders = tenures.filter(({ owner }) => state.holders.includes(owner));
    const held = holders.map(({ acquire }) => who(acquire.event)).join(", ");
    this.violated(
      `No order of the calls on ${name(lock)} is possible: the ${stuck.f} of ${who(stuck.event)} took effect by ${at(stuck.event.t, world.origin)}, when ${held === "" ? "nobody" : held} held it.`,
      [
        ...holders
          .slice(0, 2)
          .flatMap(({ acquire, renewals }) => [acquire.event, renewals.at(-1)?.event]),
        stuck.event,
      ],
    );
  }

  #forget(segment: Segment): void {
    for (const { renewals } of segment.tenures.values()) this.#remembered -= 1 + renewals.length;
    segment.tenures.clear();
  }

  #segment(lock: string): Segment {
    let segment = this.#segments.get(lock);
    if (segment === undefined) {
      segment = {
        tenures: new Map(),
        calls: new Map(),
        state: FREE,
        record: undefined,
        from: -Infinity,
        permits: undefined,
        shared: false,
        over: 0,
      };
      this.#segments.set(lock, segment);
    }
    return segment;
  }
}

/** Nothing is under way and nothing is held: what comes later is not in conflict with anything before. */
function isQuiet({ calls, tenures }: Segment): boolean {
  if (calls.size > 0) return false;
  for (const { acquire, release } of tenures.values())
    if (!acquire.must || release?.must !== true) return false;
  return true;
}

export const linearizability: Checker = checker(
  {
    id: "P12",
    title: "the server behaves like one lock",
    cost: "O(n log n) with tokens; a bounded search without",
    needsEveryEvent: true,
  },
  (...facts) => new Linearizability(...facts),
);
