/** The SQLite driver's statements about waiters, offers and what nobody holds any more. */
import {
  type Args,
  idOf,
  type LockEntry,
  type Model,
  num,
  type ShareEntry,
  type Tables,
  text,
  type WaiterEntry,
} from "./sqlite-tables.ts";

/** The waiters of a name, oldest first. */
function waitersOf(tables: Tables, key: string): WaiterEntry[] {
  return tables.where("waiters", (row) => row.key === key).sort((a, b) => a.seq - b.seq);
}

function liveOf(tables: Tables, args: Args): WaiterEntry[] {
  const now = num(args, "now");
  return waitersOf(tables, text(args, "key")).filter(
    ({ until, missed }) => until > now && missed === 0,
  );
}

function change(tables: Tables, rows: readonly WaiterEntry[], by: Partial<WaiterEntry>): number {
  for (const row of rows) tables.put("waiters", idOf(row.key, row.seq), { ...row, ...by });
  return rows.length;
}

function drop(tables: Tables, rows: readonly WaiterEntry[]): number {
  for (const { key, seq } of rows) tables.put("waiters", idOf(key, seq), undefined);
  return rows.length;
}

function byGrant(tables: Tables, args: Args): WaiterEntry[] {
  const grant = text(args, "grant");
  return waitersOf(tables, text(args, "key")).filter(({ grant_id }) => grant_id === grant);
}

function join(tables: Tables, args: Args): number {
  const key = text(args, "key");
  const seq = (waitersOf(tables, key).at(-1)?.seq ?? 0) + 1;
  tables.put("waiters", idOf(key, seq), {
    key,
    seq,
    grant_id: text(args, "grant"),
    host: text(args, "host"),
    mode: text(args, "mode"),
    permits: num(args, "permits"),
    holder: text(args, "holder"),
    ttl_ms: num(args, "ttl"),
    keep_ms: num(args, "keep"),
    until: num(args, "until"),
    offered: null,
    missed: 0,
  });
  return 1;
}

const entries: Readonly<Record<string, Model>> = {
  waiter: byGrant,
  ahead: (tables, args) => {
    const before = liveOf(tables, args).filter(({ seq }) => seq < num(args, "seq"));
    const barring = before.filter(({ mode }) => mode !== "shared").length;
    return [{ ahead: before.length, barring }];
  },
  head: (tables, args) => liveOf(tables, args).slice(0, 1),
  semaphore: (tables, args) =>
    liveOf(tables, args)
      .filter(({ mode }) => mode === "permits")
      .slice(0, 1)
      .map(({ permits }) => ({ permits })),
  waiters: liveOf,
  queueLength: (tables, args) => [{ n: waitersOf(tables, text(args, "key")).length }],
  join,
  heard: (tables, args) => {
    const seq = num(args, "seq");
    const [row] = waitersOf(tables, text(args, "key")).filter((each) => each.seq === seq);
    if (row === undefined) return 0;
    const until = Math.max(num(args, "until"), row.offered ?? 0);
    return change(tables, [row], { keep_ms: num(args, "keep"), until, missed: 0 });
  },
  renewWaiter: (tables, args) => {
    const [row] = byGrant(tables, args);
    if (row === undefined) return 0;
    const until = Math.max(num(args, "now") + row.keep_ms, row.offered ?? 0);
    return change(tables, [row], { until, missed: 0 });
  },
  leave: (tables, args) => drop(tables, byGrant(tables, args)),
  waitsFor: (tables, args) => {
    const host = text(args, "host");
    return [{ n: tables.where("waiters", (row) => row.host === host).length > 0 ? 1 : 0 }];
  },
  dropDeadWaiters: (tables, args) => {
    const [from, to, dead] = [text(args, "from"), text(args, "to"), num(args, "dead")];
    return drop(
      tables,
      tables.where("waiters", ({ key, until }) => key >= from && key <= to && until < dead),
    );
  },
};

function offer(tables: Tables, args: Args, rows: readonly WaiterEntry[]): object[] {
  const [now, longest] = [num(args, "now"), num(args, "longest")];
  const open = rows.filter(({ offered }) => offered === null);
  for (const row of open) {
    const until = now + Math.min(row.ttl_ms, longest);
    change(tables, [row], { offered: until, until: Math.max(row.until, until) });
  }
  return open.map(({ host }) => ({ host }));
}

const offers: Readonly<Record<string, Model>> = {
  missOffers: (tables, args) => {
    const [now, but] = [num(args, "now"), text(args, "but")];
    const missed = waitersOf(tables, text(args, "key")).filter(
      ({ offered, grant_id }) => offered !== null && offered <= now && grant_id !== but,
    );
    return change(tables, missed, { missed: 1, offered: null });
  },
  withdrawOffers: (tables, args) => {
    const open = waitersOf(tables, text(args, "key")).filter(({ offered }) => offered !== null);
    return change(tables, open, { offered: null });
  },
  offerHead: (tables, args) =>
    offer(tables, args, liveOf(tables, args).slice(0, num(args, "slots"))),
  offerShared: (tables, args) => {
    const live = liveOf(tables, args);
    const barrier = live.findIndex(({ mode }) => mode !== "shared");
    return offer(tables, args, barrier < 0 ? live : live.slice(0, barrier));
  },
  offersEnd: (tables, args) => {
    const ends = waitersOf(tables, text(args, "key")).flatMap(({ offered }) => offered ?? []);
    return [{ until: ends.length === 0 ? null : Math.max(...ends) }];
  },
  offeredTo: (tables, args) => {
    const [host, now] = [text(args, "host"), num(args, "now")];
    return tables.where(
      "waiters",
      (row) => row.host === host && row.offered !== null && row.offered > now,
    );
  },
};

/** Rows that a sweep may forget. */
function spent(tables: Tables, args: Args): LockEntry[] {
  const [from, to] = [text(args, "from"), text(args, "to")];
  const [idle, old, ceiling] = [num(args, "idle"), num(args, "old"), BigInt(args["ceiling"] ?? 0)];
  return tables.where(
    "locks",
    ({ key, counter, state, abandoned, freed, expires, delay_ms }) =>
      key >= from &&
      key <= to &&
      counter <= ceiling &&
      ((state === 0 && abandoned === 0 && freed <= idle) ||
        (state === 0 && freed < old) ||
        (state === 1 && expires + delay_ms < old)),
  );
}

const isIn = (tables: Tables, table: "waiters" | "shares", key: string): boolean =>
  tables.where(table, (row: { readonly key: string }) => row.key === key).length > 0;

const sweeps: Readonly<Record<string, Model>> = {
  sweepTo: (tables, args) => {
    const keys = tables.where("locks", ({ key }) => key >= text(args, "from")).map((l) => l.key);
    const key = keys.sort()[num(args, "size")];
    return key === undefined ? [] : [{ key }];
  },
  sweepShares: (tables, args) => {
    const [from, to, now] = [text(args, "from"), text(args, "to"), num(args, "now")];
    const old = tables.where(
      "shares",
      ({ key, expires, delay_ms }) => key >= from && key <= to && expires + delay_ms <= now,
    );
    for (const { key, grant_id } of old) tables.put("shares", idOf(key, grant_id), undefined);
    return old.length;
  },
  sweepIdle: (tables, args) => {
    const [from, to, freed] = [text(args, "from"), text(args, "to"), num(args, "now")];
    const idle = tables
      .where("locks", ({ key, state }) => key >= from && key <= to && state === 2)
      .filter(({ key }) => !isIn(tables, "waiters", key) && !isIn(tables, "shares", key));
    for (const row of idle)
      tables.put("locks", row.key, { ...row, state: row.grant_id === null ? 0 : 1, freed });
    return idle.length;
  },
  sweepFloor: (tables, args) => {
    const meta = tables.get("meta", "1");
    const counters = spent(tables, args).map(({ counter }) => counter);
    if (meta === undefined || counters.length === 0) return 0;
    const floor = counters.reduce((high, each) => (each > high ? each : high), meta.floor);
    tables.put("meta", "1", { ...meta, floor });
    return 1;
  },
  sweepLocks: (tables, args) => {
    const rows = spent(tables, args);
    for (const { key } of rows) tables.put("locks", key, undefined);
    return rows.length;
  },
};

/** The wall-clock end plus one ttl, on the new boot's clock; never longer than two ttls. */
function adopted(row: LockEntry | ShareEntry, args: Args): number {
  const left = Math.max(row.wall_end + row.ttl_ms - num(args, "wall"), 0);
  return num(args, "now") + Math.min(left, 2 * row.ttl_ms);
}

function clear(tables: Tables, table: "shares" | "waiters" | "tombs"): number {
  const rows = [...tables.all(table)];
  for (const row of rows) {
    const id =
      "seq" in row
        ? idOf(row.key, row.seq)
        : "key" in row
          ? idOf(row.key, row.grant_id)
          : row.grant_id;
    tables.put(table, id, undefined);
  }
  return rows.length;
}

const boots: Readonly<Record<string, Model>> = {
  inUse: (tables) => [{ n: tables.where("locks", ({ state }) => state > 0).length }],
  voidLocks: (tables) => {
    const rows = [...tables.all("locks")];
    for (const row of rows) {
      const abandoned = row.grant_id === null ? row.abandoned : 1;
      const gone = { abandoned, state: 0, grant_id: null, holder: null, expires: 0, freed: 0 };
      tables.put("locks", row.key, { ...row, ...gone });
    }
    return rows.length;
  },
  adoptLocks: (tables, args) => {
    const rows = [...tables.all("locks")];
    for (const row of rows) {
      const shared = row.state === 2 && isIn(tables, "shares", row.key);
      const state = shared ? 2 : row.grant_id === null ? 0 : 1;
      const expires = adopted(row, args);
      tables.put("locks", row.key, { ...row, expires, freed: num(args, "now"), state });
    }
    return rows.length;
  },
  adoptShares: (tables, args) => {
    const rows = [...tables.all("shares")];
    for (const row of rows)
      tables.put("shares", idOf(row.key, row.grant_id), { ...row, expires: adopted(row, args) });
    return rows.length;
  },
  adoptTombs: (tables, args) => {
    const rows = [...tables.all("tombs")];
    for (const row of rows)
      tables.put("tombs", row.grant_id, { ...row, until: num(args, "until") });
    return rows.length;
  },
  clearShares: (tables) => clear(tables, "shares"),
  clearWaiters: (tables) => clear(tables, "waiters"),
  clearTombs: (tables) => clear(tables, "tombs"),
};

export const queueModel: Readonly<Record<string, Model>> = {
  ...entries,
  ...offers,
  ...sweeps,
  ...boots,
};
