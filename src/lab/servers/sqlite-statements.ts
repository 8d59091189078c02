/** What each of the SQLite driver's statements does, by its name: a function over the tables. */
import { MAX_TOKEN } from "../../core/fencing-token.ts";
import { queueModel } from "./sqlite-queue.ts";
import {
  type Args,
  big,
  bigOrNull,
  idOf,
  type LockEntry,
  type Model,
  num,
  type Outcome,
  type ShareEntry,
  type Tables,
  text,
  textOrNull,
} from "./sqlite-tables.ts";

function decimal(value: bigint | null): string | null {
  return value === null ? null : value.toString();
}

/** The file is this boot's and time namespace's. */
function isMine(tables: Tables, args: Args): boolean {
  const meta = tables.get("meta", "1");
  return meta?.boot === text(args, "boot") && meta.clock === text(args, "clock");
}

function termsOf(args: Args): Pick<LockEntry, "ttl_ms" | "delay_ms" | "expires" | "wall_end"> {
  return {
    ttl_ms: num(args, "ttl"),
    delay_ms: num(args, "delay"),
    expires: num(args, "expires"),
    wall_end: num(args, "wallEnd"),
  };
}

/** The terms of a renewal, which ends nothing sooner. */
function longer(row: LockEntry | ShareEntry, args: Args): ReturnType<typeof termsOf> {
  const terms = termsOf(args);
  return {
    ...terms,
    expires: Math.max(row.expires, terms.expires),
    wall_end: Math.max(row.wall_end, terms.wall_end),
  };
}

function sharesOf(tables: Tables, key: string): ShareEntry[] {
  return tables.where("shares", (share) => share.key === key);
}

const metaModel: Readonly<Record<string, Model>> = {
  meta: (tables) => {
    const meta = tables.get("meta", "1");
    return meta === undefined ? [] : [{ ...meta, floor: decimal(meta.floor) }];
  },
  tables: (tables) => (tables.get("meta", "1") === undefined ? [] : [{ name: "ringfence_meta" }]),
  setIdentity: (tables, args) => {
    const meta = tables.get("meta", "1");
    if (meta === undefined) return 0;
    tables.put("meta", "1", { ...meta, boot: text(args, "boot"), clock: text(args, "clock") });
    return 1;
  },
};

function grantIdle(tables: Tables, args: Args): Outcome {
  const meta = tables.get("meta", "1");
  if (meta === undefined || !isMine(tables, args)) return [];
  const tomb = tables.get("tombs", text(args, "grant"));
  if (tomb !== undefined && tomb.until > num(args, "now")) return [];
  const more = big(args, "more");
  const asked = big(args, "least");
  const least = meta.floor + 1n > asked ? meta.floor + 1n : asked;
  if (least + more > MAX_TOKEN) return [];
  const key = text(args, "key");
  const found = tables.get("locks", key);
  if (found !== undefined && (found.state !== 0 || found.counter + more >= MAX_TOKEN)) return [];
  const first = found !== undefined && found.counter + 1n > least ? found.counter + 1n : least;
  const last = first + more;
  const row: LockEntry = {
    key,
    state: 1,
    permits: 1,
    grant_id: text(args, "grant"),
    holder: text(args, "holder"),
    ...termsOf(args),
    since: num(args, "wall"),
    first,
    last,
    counter: last,
    previous: found === undefined || found.last === 0n ? null : found.last,
    abandoned: found?.abandoned ?? 0,
    freed: found?.freed ?? 0,
  };
  tables.put("locks", key, row);
  return [{ first: first.toString(), previous: decimal(row.previous), abandoned: row.abandoned }];
}

const soleModel: Readonly<Record<string, Model>> = {
  grantIdle,
  releaseSole: (tables, args) => {
    const row = heldBy(tables, args);
    if (row?.state !== 1) return 0;
    const freed = num(args, "now");
    const gone = { state: 0, grant_id: null, holder: null, abandoned: 0, freed };
    tables.put("locks", row.key, { ...row, ...gone });
    return 1;
  },
  renewSole: (tables, args) => {
    const row = heldBy(tables, args);
    if (row === undefined) return 0;
    tables.put("locks", row.key, { ...row, ...longer(row, args) });
    return 1;
  },
};

function heldBy(tables: Tables, args: Args): LockEntry | undefined {
  const row = tables.get("locks", text(args, "key"));
  const held = row?.grant_id === text(args, "grant") && row.expires > num(args, "now");
  return held && isMine(tables, args) ? row : undefined;
}

function putLock(tables: Tables, args: Args): Outcome {
  const key = text(args, "key");
  const grant = textOrNull(args, "grant");
  const crowded =
    tables.where("waiters", (waiter) => waiter.key === key).length > 0 ||
    sharesOf(tables, key).length > 0;
  tables.put("locks", key, {
    key,
    state: crowded ? 2 : grant === null ? 0 : 1,
    permits: num(args, "permits"),
    grant_id: grant,
    holder: textOrNull(args, "holder"),
    ...termsOf(args),
    since: num(args, "since"),
    first: big(args, "first"),
    last: big(args, "last"),
    counter: big(args, "counter"),
    previous: bigOrNull(args, "previous"),
    abandoned: num(args, "abandoned"),
    freed: num(args, "freed"),
  });
  return 1;
}

const lockModel: Readonly<Record<string, Model>> = {
  lock: (tables, args) => {
    const row = tables.get("locks", text(args, "key"));
    if (row === undefined) return [];
    const { first, last, counter, previous } = row;
    const tokens = { first: decimal(first), last: decimal(last), counter: decimal(counter) };
    return [{ ...row, ...tokens, previous: decimal(previous) }];
  },
  putLock,
  list: (tables, args) => {
    const [from, to, after] = [text(args, "from"), text(args, "to"), text(args, "after")];
    const now = num(args, "now");
    const used = (key: string): boolean =>
      sharesOf(tables, key).some(({ expires }) => expires > now) ||
      tables.where("waiters", (w) => w.key === key && w.until > now && w.missed === 0).length > 0;
    return tables
      .where("locks", ({ key, state }) => key >= from && key < to && key > after && state > 0)
      .filter(({ key, grant_id, expires }) => (grant_id !== null && expires > now) || used(key))
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .slice(0, num(args, "limit"))
      .map(({ key }) => ({ key }));
  },
};

const largest = (values: readonly number[]): number | null =>
  values.length === 0 ? null : Math.max(...values);

const shown = (row: ShareEntry): object => ({
  ...row,
  first: decimal(row.first),
  previous: decimal(row.previous),
});

function oneShare(tables: Tables, args: Args): ShareEntry | undefined {
  return tables.get("shares", idOf(text(args, "key"), text(args, "grant")));
}

const shareModel: Readonly<Record<string, Model>> = {
  share: (tables, args) => {
    const row = oneShare(tables, args);
    return row === undefined ? [] : [shown(row)];
  },
  shares: (tables, args) => {
    const now = num(args, "now");
    return sharesOf(tables, text(args, "key"))
      .filter(({ expires }) => expires > now)
      .sort((a, b) => a.since - b.since || (a.grant_id < b.grant_id ? -1 : 1))
      .map(shown);
  },
  shareSums: (tables, args) => {
    const shares = sharesOf(tables, text(args, "key"));
    const ends = shares.map(({ expires, delay_ms }) => expires + delay_ms);
    const sums = {
      shared: shares.filter(({ mode }) => mode === "shared").length,
      permits: shares.filter(({ mode }) => mode === "permits").length,
      soonest: ends.length === 0 ? null : Math.min(...ends),
      latest: largest(ends),
      expires: largest(shares.map(({ expires }) => expires)),
    };
    return [sums];
  },
  dropSpentShares: (tables, args) => {
    const now = num(args, "now");
    const spent = sharesOf(tables, text(args, "key")).filter(
      ({ expires, delay_ms }) => expires + delay_ms <= now,
    );
    for (const { key, grant_id } of spent) tables.put("shares", idOf(key, grant_id), undefined);
    return spent.length;
  },
  putShare: (tables, args) => {
    const [key, grant] = [text(args, "key"), text(args, "grant")];
    tables.put("shares", idOf(key, grant), {
      key,
      grant_id: grant,
      mode: text(args, "mode"),
      holder: text(args, "holder"),
      ...termsOf(args),
      since: num(args, "since"),
      first: bigOrNull(args, "first"),
      previous: bigOrNull(args, "previous"),
      abandoned: num(args, "abandoned"),
    });
    return 1;
  },
  renewShare: (tables, args) => {
    const row = oneShare(tables, args);
    if (row === undefined || row.expires <= num(args, "now")) return 0;
    tables.put("shares", idOf(row.key, row.grant_id), { ...row, ...longer(row, args) });
    return 1;
  },
  cutShare: (tables, args) => {
    const row = oneShare(tables, args);
    if (row === undefined) return 0;
    tables.put("shares", idOf(row.key, row.grant_id), { ...row, expires: num(args, "now") });
    return 1;
  },
  dropShare: (tables, args) => {
    const row = oneShare(tables, args);
    if (row === undefined) return 0;
    tables.put("shares", idOf(row.key, row.grant_id), undefined);
    return 1;
  },
};

const tombModel: Readonly<Record<string, Model>> = {
  tomb: (tables, args) => {
    const tomb = tables.get("tombs", text(args, "grant"));
    return tomb === undefined ? [] : [tomb];
  },
  bury: (tables, args) => {
    const [grant_id, kind, until] = [text(args, "grant"), text(args, "kind"), num(args, "until")];
    const found = tables.get("tombs", grant_id);
    tables.put("tombs", grant_id, {
      grant_id,
      kind: found?.kind === "revoked" ? "revoked" : kind,
      until: Math.max(until, found?.until ?? until),
    });
    return 1;
  },
  dropTombs: (tables, args) => {
    const now = num(args, "now");
    const old = tables.where("tombs", ({ until }) => until <= now);
    for (const { grant_id } of old) tables.put("tombs", grant_id, undefined);
    return old.length;
  },
};

/** Every statement, by name. */
export const MODEL: Readonly<Record<string, Model>> = {
  ...metaModel,
  ...soleModel,
  ...lockModel,
  ...shareModel,
  ...tombModel,
  ...queueModel,
};
