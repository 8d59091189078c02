import type { Ev, NewEv } from "../../src/lab/history.ts";

/** A small generator of numbers; the same seed gives the same history. */
export type Rnd = () => number;

export function rndOf(seed: number): Rnd {
  let state = (seed * 2654435761) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 4294967296;
  };
}

export const MS = 1e6;
export const TTL: number = 1000 * MS;
/** Deadlines come this much before the ttl: clocks here differ by half a percent at most. */
const MARGIN = 50 * MS;

type Draft = { -readonly [K in keyof NewEv]: NewEv[K] };

/** A history with what was meant to happen at the resource still to be decided. */
export interface CleanHistory {
  readonly events: Ev[];
  /** A paused holder acted late: P2 is broken, and everything else must hold. */
  readonly late: boolean;
}

/**
 * A random history of a queueing lock with fencing tokens over guarded resources, in which everything is right: clients
 * renew, release, die, stand still past their ttl, lose replies; the resource decides by (token, grant id).
 */
export function cleanHistory(seed: number): CleanHistory {
  return new Generator(rndOf(seed)).run();
}

class Generator {
  readonly #rnd: Rnd;
  readonly #drafts: Draft[] = [];
  readonly #late: boolean;
  readonly #rates = new Map<string, number>();
  #op = 0;
  #grants = 0;
  #keys = 0;

  constructor(rnd: Rnd) {
    this.#rnd = rnd;
    this.#late = rnd() < 0.3;
  }

  run(): CleanHistory {
    const locks = 1 + this.#int(2);
    const ends: number[] = [];
    const faultsEnd: number[] = [];
    for (let n = 0; n < locks; n += 1) {
      const { end, calm } = this.#lock(`lock-${n}`, 3 + this.#int(5));
      ends.push(end);
      faultsEnd.push(calm);
    }
    this.#add(Math.max(...faultsEnd), { p: "nemesis", k: "event", f: "heal" });
    const end = Math.max(...ends) + 20_000 * MS;
    this.#add(end, { p: "observer", k: "event", f: "held?", accepted: false });
    return { events: this.#decide(), late: this.#late };
  }

  /** Tenures one after another; the first ones may end badly. */
  #lock(lock: string, count: number): { end: number; calm: number } {
    let token = 1n + BigInt(this.#int(100));
    let free = this.#int(20) * MS;
    let asked = free;
    let calm = 0;
    for (let n = 0; n < count; n += 1) {
      // Each client has one lease at a time, so that a pause is a pause of that lease.
      const p = `${String.fromCharCode(65 + (n % 5))}-${lock}`;
      asked = Math.max(asked + 8 * MS, free - this.#int(60) * MS + this.#int(60) * MS);
      const grant = `g${this.#grants}-${lock}-${n}`;
      this.#grants += 1;
      const queues = asked <= free;
      token += 1n + BigInt(this.#int(3));
      const faulty = n < count * 0.6;
      const tenure = { lock, p, grant, token };
      free = this.#tenure(tenure, { asked, free, queues, faulty });
      if (faulty) calm = free + 30 * MS;
    }
    return { end: free, calm };
  }

  #tenure(
    tenure: { lock: string; p: string; grant: string; token: bigint },
    when: { asked: number; free: number; queues: boolean; faulty: boolean },
  ): number {
    const { lock, p, grant, token } = tenure;
    const op = this.#call();
    const of = { p, lock, grant };
    this.#add(when.asked, { ...of, op, k: "invoke", f: "acquire", ttl: TTL });
    let sent = when.asked;
    if (when.queues) {
      this.#add(when.asked + MS, { ...of, k: "event", f: "enqueue" });
      this.#add(Math.max(when.free, when.asked + MS) + MS, { ...of, k: "event", f: "wakeup" });
      sent = Math.max(when.free, when.asked + MS) + 2 * MS;
    }
    const held = { ...of, token };
    let granted = sent + 2 * MS;
    this.#add(granted, { ...held, op, k: "event", f: "srv.grant", ttl: TTL });
    if (when.faulty && this.#rnd() < 0.07) {
      this.#add(sent + 40 * MS, { ...of, op, k: "info", f: "acquire", err: "timeout" });
      const lapsed = granted + TTL;
      this.#add(lapsed, { ...held, k: "event", f: "srv.expire" });
      return lapsed;
    }
    let t = sent + 4 * MS;
    this.#add(t, {
      ...held,
      op,
      k: "ok",
      f: "acquire",
      ttl: TTL,
      deadline: this.#local(p, sent) + TTL - MARGIN,
    });
    const steps = 1 + this.#int(4);
    for (let n = 0; n < steps; n += 1) {
      t += (1 + this.#int(30)) * MS;
      const choice = this.#rnd();
      if (choice < 0.3) {
        const renewal = this.#call();
        this.#add(t, { ...held, op: renewal, k: "invoke", f: "renew", ttl: TTL });
        granted = t + 2 * MS;
        this.#add(granted, { ...held, op: renewal, k: "event", f: "srv.renew", ttl: TTL });
        const deadline = this.#local(p, t) + TTL - MARGIN;
        t += 4 * MS;
        this.#add(t, { ...held, op: renewal, k: "ok", f: "renew", ttl: TTL, deadline });
      } else if (choice < 0.45) {
        this.#add(t, { ...held, k: "event", f: "held?", accepted: true });
      } else if (choice < 0.6) t = this.#effect(held, t);
      else {
        const res = `res-${lock}-${this.#int(2)}`;
        t = this.#access(held, "claim", res, t);
        t = this.#access(held, "read", res, t);
        t = this.#access(held, "write", res, t);
      }
    }
    return this.#ending(held, t + 5 * MS, granted, when.faulty);
  }

  #ending(
    held: { p: string; lock: string; grant: string; token: bigint },
    t: number,
    granted: number,
    faulty: boolean,
  ): number {
    const lapsed = granted + TTL;
    const { p } = held;
    const fate = faulty ? this.#rnd() : 1;
    if (fate < 0.15) {
      this.#add(t, { p, k: "event", f: "fault.kill" });
      this.#add(lapsed, { ...held, k: "event", f: "srv.expire" });
      this.#add(lapsed + MS, { p, inc: 1, k: "event", f: "fault.start" });
      return lapsed;
    }
    if (fate < 0.4) {
      this.#add(t, { p, k: "event", f: "fault.pause" });
      this.#add(lapsed, { ...held, k: "event", f: "srv.expire" });
      const resumed = lapsed + this.#int(60) * MS;
      this.#add(resumed, { p, k: "event", f: "fault.resume" });
      if (this.#late) this.#access(held, "write", `res-${held.lock}-0`, resumed + MS);
      this.#add(resumed + 8 * MS, { ...held, k: "event", f: "lost", err: "expired" });
      return lapsed;
    }
    const op = this.#call();
    this.#add(t, { ...held, op, k: "invoke", f: "release" });
    this.#add(t + 2 * MS, { ...held, op, k: "event", f: "srv.release" });
    const unknown = faulty && this.#rnd() < 0.1;
    this.#add(t + 9 * MS, { ...held, op, k: unknown ? "info" : "ok", f: "release" });
    return t + 2 * MS;
  }

  #access(
    held: { p: string; lock: string; grant: string; token: bigint },
    f: "claim" | "read" | "write",
    res: string,
    t: number,
  ): number {
    const op = this.#call();
    this.#add(t, { ...held, op, k: "invoke", f, res, path: "app" });
    this.#add(t + MS, { ...held, op, k: "event", f, res, path: "app" });
    this.#add(t + 2 * MS, { ...held, op, k: "ok", f, res, path: "app" });
    return t + 3 * MS;
  }

  #effect(held: { p: string; lock: string; grant: string; token: bigint }, t: number): number {
    this.#keys += 1;
    const idem = `key-${this.#keys}`;
    let at = t;
    for (let tries = 0; tries < 1 + this.#int(3); tries += 1) {
      const effect = { ...held, op: this.#call(), f: "effect", idem, body: "pay" } as const;
      this.#add(at, { ...effect, k: "invoke" });
      const answer = { ...effect, accepted: tries === 0, ver: this.#keys };
      this.#add(at + MS, { ...answer, k: "event" });
      this.#add(at + 2 * MS, { ...answer, k: "ok" });
      at += 3 * MS;
    }
    return at;
  }

  /** Plays the resources in the order of time: (token, grant id) decides. */
  #decide(): Ev[] {
    const sorted = this.#drafts
      .map((draft, n) => ({ draft, n }))
      .sort((a, b) => a.draft.t - b.draft.t || a.n - b.n)
      .map(({ draft }) => draft);
    const stored = new Map<string, { token: bigint; grant: string; ver: number }>();
    const seen = new Map<string, number>();
    const answers = new Map<number, Partial<Draft>>();
    for (const draft of sorted) {
      const { f, k, res, grant = "", token = 0n, op = 0 } = draft;
      if (res === undefined) continue;
      if (k === "ok") Object.assign(draft, answers.get(op));
      if (k !== "event") continue;
      const entry = stored.get(res) ?? { token: 0n, grant: "", ver: 0 };
      stored.set(res, entry);
      const mine = entry.token === token && entry.grant === grant;
      const about = `${grant} ${res}`;
      if (f === "claim") {
        const accepted = mine || token > entry.token;
        if (accepted) Object.assign(entry, { token, grant });
        answers.set(op, { accepted });
      } else if (f === "read") {
        seen.set(about, entry.ver);
        answers.set(op, { ver: entry.ver });
      } else {
        const from = seen.get(about);
        const ver = entry.ver + 1;
        if (mine) {
          entry.ver = ver;
          seen.set(about, ver);
        }
        answers.set(op, { accepted: mine, ...(from === undefined ? {} : { from }), ver });
      }
      Object.assign(draft, answers.get(op));
    }
    return sorted.map((draft, i) => ({ ...draft, inc: draft.inc ?? 0, i }));
  }

  #add(t: number, event: Omit<Draft, "t">): void {
    const { f, p } = event;
    const own = !f.startsWith("srv.") && f !== "enqueue" && f !== "wakeup";
    this.#drafts.push({ t, ...(own ? { lt: this.#local(p, t) } : {}), ...event });
  }

  /** Each client's clock started at another time and runs at a rate of its own, within half a percent. */
  #local(p: string, t: number): number {
    let rate = this.#rates.get(p);
    if (rate === undefined) {
      rate = 1 + (this.#rnd() - 0.5) / 100;
      this.#rates.set(p, rate);
      this.#drafts.push({ t: 0, p, k: "event", f: "fault.clock", rate, lt: 5e9 });
    }
    return 5e9 + t * rate;
  }

  #call(): number {
    this.#op += 1;
    return this.#op;
  }

  #int(n: number): number {
    return Math.floor(this.#rnd() * n);
  }
}
