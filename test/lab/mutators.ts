import type { PropertyId } from "../../src/lab/checkers/index.ts";
import type { Ev, EvOp, NewEv } from "../../src/lab/history.ts";
import { MS, type Rnd, TTL } from "./clean-history.ts";

type Draft = { -readonly [K in keyof Ev]: Ev[K] };

/** One way to falsify a history, and the property that must notice. Returns `undefined` where it does not apply. */
export interface Mutator {
  readonly name: string;
  readonly caughtBy: PropertyId;
  readonly mutate: (events: readonly Ev[], rnd: Rnd) => NewEv[] | undefined;
}

/** The events as copies that may be changed. */
function copy(events: readonly Ev[]): Draft[] {
  return events.map((event) => ({ ...event }));
}

function pick<T>(items: readonly T[], rnd: Rnd): T | undefined {
  return items[Math.floor(rnd() * items.length)];
}

/** Acquired leases of one lock that are followed by another. */
function pairs(events: readonly Draft[]): { a: Draft; b: Draft }[] {
  const acquired = events.filter(({ f, k }) => f === "acquire" && k === "ok");
  return acquired.flatMap((a) => {
    const b = acquired.find((next) => next.lock === a.lock && next.i > a.i);
    return b === undefined ? [] : [{ a, b }];
  });
}

function of(events: readonly Draft[], grant: string | undefined, f: EvOp, k: string): Draft[] {
  return events.filter((event) => event.grant === grant && event.f === f && event.k === k);
}

function inserted(events: Draft[], more: readonly NewEv[]): NewEv[] {
  return [...events, ...more]
    .map((event, n) => ({ event, n }))
    .sort((x, y) => x.event.t - y.event.t || x.n - y.n)
    .map(({ event }) => event);
}

/** A mutator of one event among those that fit. */
function change(
  name: string,
  caughtBy: PropertyId,
  fits: (event: Draft, all: readonly Draft[]) => boolean,
  apply: (event: Draft, all: readonly Draft[]) => void,
): Mutator {
  return {
    name,
    caughtBy,
    mutate: (events: readonly Ev[], rnd: Rnd): NewEv[] | undefined => {
      const drafts = copy(events);
      const chosen = pick(
        drafts.filter((event) => fits(event, drafts)),
        rnd,
      );
      if (chosen === undefined) return undefined;
      apply(chosen, drafts);
      return inserted(drafts, []);
    },
  };
}

/** A mutator of a lease and its successor. */
function succession(
  name: string,
  caughtBy: PropertyId,
  mutate: (a: Draft, b: Draft, all: Draft[]) => NewEv[] | undefined,
): Mutator {
  return {
    name,
    caughtBy,
    mutate: (events: readonly Ev[], rnd: Rnd): NewEv[] | undefined => {
      const drafts = copy(events);
      const pair = pick(pairs(drafts), rnd);
      return pair === undefined ? undefined : mutate(pair.a, pair.b, drafts);
    },
  };
}

const landed = (f: EvOp, accepted: boolean) => (event: Draft) =>
  event.f === f && event.k === "event" && event.accepted === accepted;
const isRenewal = ({ f, k }: Draft): boolean => f === "renew" && k === "ok";
const isReplay = landed("effect", false);

/** An access that nobody made. */
function forged(b: Draft, event: Partial<NewEv> & Pick<NewEv, "f">): NewEv {
  return { t: b.t + 0.5 * MS, p: "X", k: "event", op: 1_000_001, ...event };
}

export const MUTATORS: readonly Mutator[] = [
  succession("extend an interval", "P1", (a, _b, all) => {
    for (const event of all)
      if (event.grant === a.grant && event.deadline !== undefined) event.deadline += 1000 * TTL;
    const ends = (event: Draft): boolean =>
      (event.grant === a.grant && (event.f === "release" || event.f === "lost")) ||
      (event.p === a.p && event.f === "fault.kill");
    return all.filter((event) => !ends(event));
  }),
  succession("write after the successor came", "P2", (a, b, all) => {
    const write = { p: a.p, f: "write", grant: a.grant, token: a.token, res: "r" } as const;
    const issued = { ...write, t: a.t + 0.1 * MS, k: "invoke", op: 1_000_001 } as const;
    return inserted(all, [issued, forged(b, { ...write, accepted: false })]);
  }),
  succession("issue a write after the release", "P2", (a, _b, all) => {
    const let_go = of(all, a.grant, "release", "invoke")[0];
    if (let_go === undefined) return undefined;
    const t = let_go.t + 0.5 * MS;
    const write = { p: a.p, f: "write", grant: a.grant, token: a.token, res: "r" } as const;
    return inserted(all, [{ ...write, t, k: "invoke", op: 1_000_001 }]);
  }),
  {
    name: "swap two tokens at a resource",
    caughtBy: "P3",
    mutate: (events: readonly Ev[], rnd: Rnd): NewEv[] | undefined => {
      const drafts = copy(events);
      const claims = drafts.filter(landed("claim", true));
      const first = pick(claims, rnd);
      const second = claims.find(
        (claim) => claim.res === first?.res && (claim.token ?? 0n) > (first?.token ?? 0n),
      );
      if (first === undefined || second === undefined) return undefined;
      [first.token, second.token] = [second.token, first.token];
      return drafts;
    },
  },
  change(
    "drop a rejection",
    "P3",
    (event, all) =>
      landed("write", false)(event) &&
      all.some(
        (claim) =>
          landed("claim", true)(claim) &&
          claim.res === event.res &&
          claim.i < event.i &&
          (claim.token ?? 0n) > (event.token ?? 0n),
      ),
    (event) => {
      event.accepted = true;
    },
  ),
  change("give two grants one token at a resource", "P3", landed("write", true), (event) => {
    event.grant = "another";
  }),
  change(
    "base a write on an old version",
    "P4",
    (event, all) =>
      landed("write", true)(event) &&
      event.from !== undefined &&
      event.from > 0 &&
      all.some(
        (other) =>
          landed("write", true)(other) &&
          other.res === event.res &&
          other.ver === event.from &&
          other.grant !== event.grant,
      ),
    (event) => {
      event.from = (event.from ?? 1) - 1;
    },
  ),
  succession("interleave two sections over two resources", "P4", (a, b, all) => {
    const at = (t: number, who: Draft, f: "read" | "write", res: string, op: number): NewEv => ({
      t,
      p: who.p,
      k: "event",
      f,
      lock: a.lock,
      grant: who.grant,
      op,
      res,
      ...(f === "write" ? { accepted: true } : {}),
    });
    return inserted(all, [
      at(b.t + 0.1 * MS, a, "write", "pair-1", 2_000_001),
      at(b.t + 0.2 * MS, b, "read", "pair-1", 2_000_002),
      at(b.t + 0.3 * MS, b, "write", "pair-2", 2_000_003),
      at(b.t + 0.4 * MS, a, "write", "pair-2", 2_000_004),
    ]);
  }),
  succession("grant one token twice", "P5", (a, b, all) => {
    b.token = a.token;
    return all;
  }),
  succession("swap the tokens of two grants", "P5", (a, b, all) => {
    const asked = of(all, b.grant, "acquire", "invoke")[0];
    if (asked === undefined || asked.i < a.i) return undefined;
    [a.token, b.token] = [b.token, a.token];
    return all;
  }),
  change(
    "let a grant lapse under its holder",
    "P6",
    (event, all) => event.f === "srv.expire" && of(all, event.grant, "acquire", "ok").length > 0,
    (event, all) => {
      const acquired = of(all, event.grant, "acquire", "ok")[0];
      event.t = (acquired?.t ?? 0) + 0.5 * MS;
    },
  ),
  succession("say held after the server let go", "P6", (a, b, all) => {
    const { p, lock, grant, token } = a;
    return inserted(all, [forged(b, { f: "held?", p, lock, grant, token, accepted: true })]);
  }),
  {
    name: "forget a notice of loss",
    caughtBy: "P7",
    mutate: (events: readonly Ev[]): NewEv[] | undefined => {
      const lost = events.find(({ f }) => f === "lost");
      return lost === undefined ? undefined : copy(events).filter(({ i }) => i !== lost.i);
    },
  },
  {
    name: "never serve a waiter",
    caughtBy: "P8",
    mutate: (events) => unserved(events),
  },
  {
    name: "lose a wake-up",
    caughtBy: "P9",
    mutate: (events) => unserved(events),
  },
  {
    name: "reorder two waiters",
    caughtBy: "P9",
    mutate: (events: readonly Ev[]): NewEv[] | undefined => {
      const drafts = copy(events);
      const queued = drafts.filter(({ f }) => f === "enqueue");
      for (const first of queued)
        for (const second of queued) {
          const served = drafts.find((e) => e.f === "srv.grant" && e.grant === first.grant);
          if (second.lock !== first.lock || second.i <= first.i) continue;
          if (served === undefined || served.i < second.i) continue;
          [first.grant, second.grant] = [second.grant, first.grant];
          return drafts;
        }
      return undefined;
    },
  },
  change(
    "wake two waiters at once",
    "P9",
    ({ f }) => f === "wakeup",
    (event, all: readonly Draft[]) => {
      const again = { ...event, grant: "another" };
      (all as Draft[]).splice(all.indexOf(event), 0, again);
    },
  ),
  change("duplicate an effect", "P10", isReplay, (event) => {
    event.accepted = true;
  }),
  change("answer another body alike", "P10", isReplay, (event) => {
    event.body = "pay more";
  }),
  change("answer a retry differently", "P10", isReplay, (event) => {
    event.ver = 0;
  }),
  change(
    "release somebody else's grant",
    "P11",
    (event) => event.f === "srv.release",
    (event) => {
      event.grant = "another";
    },
  ),
  succession("confirm a stale release", "P11", (a, b, all) => {
    const { p, lock, grant, token } = a;
    const release = { f: "release", p, lock, grant, token, op: 1_000_001 } as const;
    return inserted(all, [
      forged(b, { ...release, k: "invoke" }),
      { ...forged(b, { ...release, k: "ok" }), t: b.t + 0.6 * MS },
    ]);
  }),
  succession("grant before the release was asked for", "P12", (a, b, all) => {
    const released = of(all, a.grant, "release", "invoke")[0];
    const confirmed = of(all, a.grant, "release", "ok")[0];
    if (released === undefined || confirmed === undefined) return undefined;
    const asked = of(all, b.grant, "acquire", "invoke")[0];
    if (asked === undefined) return undefined;
    asked.t = a.t + 0.1 * MS;
    b.t = a.t + 0.2 * MS;
    return inserted(all, []);
  }),
  succession("grant before the ttl is over", "P12", (a, b, all) => {
    const ended = of(all, a.grant, "release", "invoke").length > 0;
    const asked = of(all, b.grant, "acquire", "invoke")[0];
    if (ended || asked === undefined) return undefined;
    asked.t = a.t + 0.1 * MS;
    b.t = a.t + 0.2 * MS;
    return inserted(all, []);
  }),
  change(
    "hold beyond the longest hold",
    "P13",
    (event, all) =>
      event.f === "acquire" &&
      event.k === "ok" &&
      of(all, event.grant, "release", "invoke").length > 0,
    (event, all) => {
      const released = all.find((e) => e.grant === event.grant && e.f === "release");
      const from = released?.i ?? Infinity;
      for (const other of all) {
        if (other.grant === event.grant && other.deadline !== undefined)
          other.deadline += 1000 * TTL;
        if (other.i >= from) other.t += 120 * TTL;
        if (other.i >= from && other.lt !== undefined) other.lt += 120 * TTL;
      }
    },
  ),
  change("change the token in a renewal", "P14", isRenewal, (event) => {
    event.token = (event.token ?? 0n) + 1n;
  }),
  succession("resurrect by a renewal", "P14", (a, b, all) => {
    const { p, lock, grant, token } = a;
    const renew = { f: "renew", p, lock, grant, token, op: 1_000_001 } as const;
    return inserted(all, [
      forged(b, { ...renew, k: "invoke" }),
      { ...forged(b, { ...renew, k: "ok" }), t: b.t + 0.6 * MS },
    ]);
  }),
  change("write without a token", "P15", landed("write", true), (event) => {
    event.token = undefined;
  }),
  {
    name: "leave the fault out",
    caughtBy: "P16",
    mutate: (events: readonly Ev[]): NewEv[] | undefined => {
      if (!events.some(({ f }) => f === "fault.pause")) return undefined;
      return copy(events).filter(({ f }) => f !== "fault.pause");
    },
  },
];

/** The last waiter that queued after the faults waits for ever. */
function unserved(events: readonly Ev[]): NewEv[] | undefined {
  const healed = events.find(({ f }) => f === "heal")?.i ?? 0;
  const served = new Map(
    events.filter(({ f }) => f === "srv.grant").map((event) => [event.lock, event]),
  );
  for (const { grant, i, p } of served.values()) {
    const queued = events.some((event) => event.f === "enqueue" && event.grant === grant);
    if (i < healed || !queued) continue;
    const keeps = (event: Ev): boolean =>
      event.grant !== grant ||
      event.f === "enqueue" ||
      (event.f === "acquire" && event.k === "invoke");
    return copy(events).filter((event) => keeps(event) && !(event.p === p && event.i > i));
  }
  return undefined;
}
