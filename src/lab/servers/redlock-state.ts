/**
 * What one server of a Redlock has, and what each script of the driver does to it, as pure functions by the scripts'
 * names. Differential traces hold these against the scripts on a real server.
 */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import type { Call } from "../../drivers/redis/connection.ts";

/** A tenure, with its times in Unix milliseconds of the server's clock. */
interface Tenure {
  readonly id: string;
  readonly value: string;
  readonly counter: bigint;
  readonly endsAt: number;
  readonly delayMs: number;
  readonly ttlMs: number;
  /** First and last token, once written back. */
  readonly tokens: { readonly first: bigint; readonly last: bigint } | null;
  readonly before: string;
  readonly over: number;
  readonly sinceMs: number;
  readonly holder: string;
}

/** One name on one server. */
interface NameState {
  held: Tenure | null;
  counter: bigint | null;
  past: { readonly token: string; readonly over: number } | null;
}

/** One server's memory. */
export interface RedlockState {
  readonly names: Map<string, NameState>;
  /** What must not be taken any more, until when, and whether it was revoked. */
  readonly buried: Map<string, { readonly until: number; readonly revoked: boolean }>;
}

export function emptyRedlockState(): RedlockState {
  return { names: new Map(), buried: new Map() };
}

/** What a script returns: a number, or a list as the protocol has it. */
export type ScriptReply = number | readonly (string | number)[];

/** A script at one moment: the name, and what its clock says. */
interface Moment {
  readonly name: NameState;
  readonly state: RedlockState;
  readonly us: bigint;
  readonly now: number;
  readonly live: Tenure | null;
  readonly free: boolean;
}

type Script = (at: Moment, keys: readonly string[], args: readonly string[]) => ScriptReply;

/** Runs a script of the driver. `us`: Unix microseconds by the server's clock. @throws RangeError for another one */
export function runScript(state: RedlockState, us: bigint, call: Call): ScriptReply {
  const script = SCRIPTS[call.statement.name];
  if (script === undefined) throw new RangeError(`no model of the script ${call.statement.name}`);
  const [lock = ""] = call.keys;
  let name = state.names.get(lock);
  if (name === undefined) {
    name = { held: null, counter: null, past: null };
    state.names.set(lock, name);
  }
  const now = Number(us / 1000n);
  for (const [key, { until }] of state.buried) if (until <= now) state.buried.delete(key);
  const { held } = name;
  const live = held !== null && held.endsAt > now ? held : null;
  const free = held === null || held.endsAt + held.delayMs <= now;
  return script({ name, state, us, now, live, free }, call.keys, call.args);
}

function mint({ name, us }: Moment): bigint | null {
  const counter = name.counter !== null && name.counter >= us ? name.counter + 1n : us;
  if (counter > MAX_TOKEN) return null;
  name.counter = counter;
  return counter;
}

function raise(name: NameState, to: bigint): void {
  if (name.counter === null || to > name.counter) name.counter = to;
}

function lastOf({ tokens }: Tenure): string {
  return tokens === null ? "" : String(tokens.last);
}

function why({ live, state }: Moment, id: string, buried: string): number {
  if (state.buried.get(buried)?.revoked === true) return 2;
  return live !== null && live.id !== id ? 1 : 0;
}

const take: Script = (at, [, byId = "", byValue = "", byFrom = ""], args) => {
  const [id = "", value = "", ttl = "", delay = "", holder = "", from = ""] = args;
  const { name, now, live, state } = at;
  const [ttlMs, delayMs] = [Number(ttl), Number(delay)];
  if (state.buried.has(byId) || state.buried.has(byValue)) return [2];
  if (live?.id === id) {
    name.held = { ...live, endsAt: Math.max(live.endsAt, now + ttlMs), delayMs, ttlMs };
    return [1, live.value, String(live.counter), live.before, live.over];
  }
  let [before, over] = [name.past?.token ?? "", name.past?.over ?? 0];
  if (from !== "") {
    if (live?.id !== from) return [3, why(at, from, byFrom)];
    if (live.tokens !== null) [before, over] = [lastOf(live), 0];
  } else if (!at.free && name.held !== null) {
    const { endsAt, delayMs: quiet, holder: who } = name.held;
    return [0, live === null ? "lock-delay" : "lease", who, endsAt + quiet - now];
  } else if (name.held !== null && name.held.tokens !== null)
    [before, over] = [lastOf(name.held), 1];
  const counter = mint(at);
  if (counter === null) return [4];
  if (before !== "") name.past = { token: before, over };
  const tenure = { id, value, counter, endsAt: now + ttlMs, delayMs, ttlMs };
  name.held = { ...tenure, tokens: null, before, over, sinceMs: now, holder };
  if (from !== "")
    state.buried.set(byFrom, { until: now + Math.max(ttlMs, 60_000), revoked: false });
  return [1, value, String(counter), before, over];
};

const writeBack: Script = ({ name, live }, _keys, args) => {
  const [id, value, counter, first = "0", count = "1"] = args;
  if (live === null || live.id !== id || live.value !== value || String(live.counter) !== counter)
    return 0;
  const last = BigInt(first) + BigInt(count) - 1n;
  name.held = { ...live, tokens: { first: BigInt(first), last } };
  raise(name, last);
  return 1;
};

const undo: Script = ({ name, state, now }, [, byValue = ""], [id, value, bury = "0"]) => {
  if (bury !== "0") state.buried.set(byValue, { until: now + Number(bury), revoked: false });
  if (name.held?.id !== id || name.held?.value !== value) return 0;
  name.held = null;
  return 1;
};

const extend: Script = (at, [, byId = ""], [id = "", ttl, delay]) => {
  const { name, now, live, state } = at;
  if (live?.id !== id) return [0, why(at, id, byId), at.free && !state.buried.has(byId) ? 1 : 0];
  const [ttlMs, delayMs] = [Number(ttl), Number(delay)];
  name.held = { ...live, endsAt: Math.max(live.endsAt, now + ttlMs), delayMs, ttlMs };
  return [1, live.value, String(live.counter)];
};

const restore: Script = (at, [, byId = "", byValue = ""], args) => {
  const [id = "", value = "", ttl, delay, holder = "", first = "0", count = "1", before = ""] =
    args;
  const { name, state, now, free } = at;
  if (!free || state.buried.has(byId) || state.buried.has(byValue)) return [0];
  const tokens = { first: BigInt(first), last: BigInt(first) + BigInt(count) - 1n };
  raise(name, tokens.last);
  const counter = mint(at);
  if (counter === null) return [0];
  const [ttlMs, delayMs] = [Number(ttl), Number(delay)];
  const tenure = { id, value, counter, endsAt: now + ttlMs, delayMs, ttlMs, tokens };
  name.held = { ...tenure, before, over: Number(args[8]), sinceMs: now, holder };
  return [1, value, String(counter)];
};

const release: Script = (at, [, byId = ""], [id = "", late = "0", raiseTo = ""]) => {
  const { name, state, now, live } = at;
  const mine = live?.id === id;
  const reason = why(at, id, byId);
  if (mine) {
    if (live.tokens !== null) name.past = { token: lastOf(live), over: 0 };
    name.held = null;
    if (raiseTo !== "") raise(name, BigInt(raiseTo));
  }
  if (late !== "0") {
    const known = state.buried.get(byId);
    const until = Math.max(now + Number(late), known?.until ?? 0);
    state.buried.set(byId, { until, revoked: known?.revoked ?? false });
  }
  return mine ? [1] : [0, reason];
};

const revoke: Script = (at, [, byId = ""], [id = "", atOnce]) => {
  const { name, state, now, live } = at;
  if (live?.id !== id) return [0, why(at, id, byId)];
  if (atOnce === "1" || live.delayMs === 0) {
    name.held = null;
    if (live.tokens !== null) name.past = { token: lastOf(live), over: 1 };
  } else name.held = { ...live, endsAt: now };
  state.buried.set(byId, { until: now + Math.max(live.ttlMs, 60_000), revoked: true });
  return [1];
};

const inspect: Script = ({ name, now, live, free }) => {
  if (free || name.held === null) return [0];
  const { held } = name;
  if (live === null) return [2, held.endsAt + held.delayMs - now];
  const first = held.tokens === null ? "" : String(held.tokens.first);
  const shown = [held.id, held.holder, first, lastOf(held)];
  return [1, ...shown, held.endsAt - now, held.sinceMs, held.delayMs];
};

const SCRIPTS: Readonly<Record<string, Script>> = {
  take,
  "write-back": writeBack,
  undo,
  extend,
  restore,
  release,
  revoke,
  inspect,
};
