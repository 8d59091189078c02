/**
 * The Redis driver's scripts as functions by their names. Differential traces hold these against the scripts on a real
 * server (`test/lab/redis-scripts.test.ts`).
 */

import { attempt, exchange, type Reply, type Script } from "./redis-lock-grants.ts";
import { emptyName, expire, type Letter, type RedisLocks, ranked } from "./redis-lock-state.ts";
import { Step, type Wake } from "./redis-lock-step.ts";

/** One call of a script, as the driver sends it. */
export interface ScriptCall {
  readonly name: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** What a script came to. */
export interface ScriptOutcome {
  readonly reply: Reply;
  readonly wakes: readonly Wake[];
  /** The names that it may have changed. */
  readonly touched: readonly string[];
}

/** The common beginning of a name's keys. */
function nameOf(key: string): string {
  return key.slice(0, -1);
}

const WEEK_MS = 7 * 86_400_000;
const HOUR_MS = 3_600_000;

/** As `lasting`, without the rule for long ttls: the driver sends those another way. */
function keepQuick({ lock, now }: Step): void {
  if (lock.keptUntil !== null && lock.keptUntil >= now) return;
  lock.keptUntil = now + HOUR_MS;
  lock.endsAt = lock.keptUntil + WEEK_MS;
}

function quickBack(step: Step, id: string): number {
  const { lock } = step.name;
  if (lock === null || lock.aside || step.live?.id !== id) return 0;
  lock.lease = null;
  return 1;
}

/** What `take` is told of a lease. */
export function readTake(told = ""): {
  readonly id: string;
  readonly delayMs: number;
  readonly ttlMs: number;
  readonly holder: string;
} {
  const [id = "", delay, ttl, ...holder] = told.split("|");
  return { id, delayMs: Number(delay), ttlMs: Number(ttl), holder: holder.join("|") };
}

function quickTake(step: Step, told: string | undefined): string | number {
  const { lock } = step.name;
  const last = lock?.last ?? null;
  if (lock?.lease || lock?.aside === true || (last !== null && last >= step.us)) return 0;
  const { id, delayMs, ttlMs, holder } = readTake(told);
  const before = step.before;
  step.lock.lease = {
    id,
    endsAt: step.now + ttlMs,
    delayMs,
    ttlMs,
    first: step.us,
    count: 1,
    over: 0,
    before,
    sinceMs: step.now,
    holder,
  };
  step.lock.last = step.us;
  keepQuick(step);
  return before;
}

/** Gives back, then takes: names at which there is nothing else. */
function quick(us: bigint, stepOf: (key: string) => Step, { keys, args }: ScriptCall): Reply {
  const [count = "0", ...rest] = args;
  const back = Number(count);
  const replies = keys.map((key, i) => {
    const step = stepOf(key);
    return i < back ? quickBack(step, rest[i] ?? "") : quickTake(step, rest[i]);
  });
  return [String(us), ...replies];
}

const take: Script = (step, [told]) => {
  const before = quickTake(step, told);
  return before === 0 ? 0 : `${step.us}|${before}`;
};

const giveBack: Script = (step, [id = ""]) => quickBack(step, id);

/** Many exclusive leases, each by itself. */
function renew(stepOf: (key: string) => Step, { keys, args }: ScriptCall): Reply {
  return keys.map((key, i) => {
    const [id, ttl, delay] = args.slice(3 * i);
    return prolonged(stepOf(key), id ?? "", Number(ttl), Number(delay)) ? 1 : 0;
  });
}

function prolonged(step: Step, id: string, ttlMs: number, delayMs: number): boolean {
  const { live } = step;
  if (live?.id !== id) return false;
  step.lock.lease = { ...live, endsAt: step.longer(live.endsAt, ttlMs), delayMs, ttlMs };
  step.keep(ttlMs + delayMs);
  return true;
}

const renewAside: Script = (step, [id = "", ttl, delay]) => {
  const [ttlMs, delayMs] = [Number(ttl), Number(delay)];
  if (prolonged(step, id, ttlMs, delayMs)) return [1];
  step.settle();
  const own = step.liveShare(id);
  if (own !== null) {
    step.enter({ ...own, endsAt: step.longer(own.endsAt, ttlMs), delayMs, ttlMs });
    step.keep(ttlMs + delayMs);
    return [1];
  }
  const waiter = step.waiter(id);
  if (waiter === null) return [0, step.why(id)];
  step.hear(waiter);
  return [1];
};

/** Raises what the next token must exceed. */
function raise(step: Step, to: string): void {
  if (to === "" || to.length > 19) return;
  const raised = step.name.lock?.raised ?? null;
  if (raised !== null && BigInt(to) <= raised) return;
  step.mark();
  step.lock.raised = BigInt(to);
}

const release: Script = (step, [id = "", late, raiseTo = ""]) => {
  const mine = step.live?.id === id;
  step.settle();
  const [own, waiter] = [step.liveShare(id), step.waiter(id)];
  const reason = step.why(id);
  if (mine) step.lock.lease = null;
  else if (own !== null || waiter !== null) step.leave(id);
  if (mine || own !== null) raise(step, raiseTo);
  if (Number(late) > 0) step.bury(id, Number(late), false);
  if (!mine && own === null && waiter === null) return [0, reason];
  step.offer(null);
  return [1];
};

const revoke: Script = (step, [id = "", atOnce]) => {
  step.settle();
  const { live } = step;
  const own = step.liveShare(id);
  if (live?.id === id) {
    if (atOnce === "1" || live.delayMs === 0) {
      step.lock.lease = null;
      step.lock.abandoned = true;
      step.mark();
    } else step.lock.lease = { ...live, endsAt: step.now };
    step.bury(id, Math.max(live.ttlMs, 60_000), true);
  } else if (own !== null) {
    if (atOnce === "1" || own.delayMs === 0) step.leave(id);
    else step.name.occupants.set(id, step.now + own.delayMs);
    step.bury(id, Math.max(own.ttlMs, 60_000), true);
  } else return [0, step.why(id)];
  step.offer(null);
  return [1];
};

const inspect: Script = (step) => {
  const { now, live } = step;
  const { lock, queue, occupants } = step.name;
  let mode: Letter | "" = live === null ? "" : "e";
  const lapsed = live === null ? (lock?.lease ?? null) : null;
  let quiet = lapsed === null ? 0 : Math.max(0, lapsed.endsAt + lapsed.delayMs - now);
  const holders: Reply[] = [];
  if (live !== null) {
    const last = live.first + BigInt(live.count - 1);
    const [first, since] = [String(live.first), String(live.sinceMs)];
    holders.push([live.id, live.holder, first, String(last), live.endsAt - now, since]);
  }
  for (const [id, over] of ranked(occupants)) {
    const share = step.liveShare(id);
    if (share === null) {
      if (step.waiter(id) === null) quiet = Math.max(quiet, over - now);
      continue;
    }
    mode = share.mode;
    const [first, since] = [String(share.first ?? ""), String(share.sinceMs)];
    holders.push([id, share.holder, first, first, share.endsAt - now, since]);
  }
  const waiters = ranked(queue)
    .map(([id]) => step.waiter(id))
    .filter((waiter) => waiter !== null && waiter.aliveUntil > now);
  const counted = mode === "p" || (holders.length === 0 && waiters[0]?.mode === "p");
  const listed = waiters.map((waiter) => [waiter?.id ?? "", waiter?.holder ?? ""]);
  return [mode, counted ? (lock?.permits ?? 0) : 1, quiet, holders, listed];
};

const inUse: Script = (step) => {
  const { queue, occupants } = step.name;
  const held = step.live !== null || [...occupants.keys()].some((id) => step.liveShare(id));
  const awaited = [...queue.keys()].some((id) => (step.waiter(id)?.aliveUntil ?? 0) > step.now);
  return held || awaited ? 1 : 0;
};

/** Scripts over the keys of one name. */
const SCRIPTS: Readonly<Record<string, Script>> = {
  take,
  "give-back": giveBack,
  attempt,
  "renew-aside": renewAside,
  release,
  revoke,
  exchange,
  inspect,
  "in-use": inUse,
};

/** Runs a script of the driver. `us`: Unix microseconds by the server's clock. @throws RangeError for another one */
export function runRedisScript(names: RedisLocks, us: bigint, call: ScriptCall): ScriptOutcome {
  const wakes: Wake[] = [];
  const touched =
    call.name === "quick" || call.name === "renew" ? call.keys : call.keys.slice(0, 1);
  const now = Number(us / 1000n);
  const stepOf = (key: string): Step => {
    let name = names.get(nameOf(key));
    if (name === undefined) {
      name = emptyName();
      names.set(nameOf(key), name);
    }
    expire(name, now);
    return new Step(name, us, wakes);
  };
  const outcome = (reply: Reply): ScriptOutcome => ({
    reply,
    wakes,
    touched: touched.map(nameOf),
  });
  if (call.name === "quick") return outcome(quick(us, stepOf, call));
  if (call.name === "renew") return outcome(renew(stepOf, call));
  const script = SCRIPTS[call.name];
  if (script === undefined) throw new RangeError(`no model of the script ${call.name}`);
  return outcome(script(stepOf(call.keys[0] ?? ""), call.args));
}
