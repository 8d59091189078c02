import type { Mode } from "../../core/capabilities.ts";
import type { Shown } from "../sql/records.ts";
import type { Sight } from "../sql/sight.ts";

type Row = readonly (string | null)[];

/** Rows by their first column, without it. */
function byKind(rows: readonly Row[]): (kind: string) => readonly Row[] {
  return (kind) => rows.filter(([first]) => first === kind).map((row) => row.slice(1));
}

function num(text: string | null | undefined): number {
  return text === null || text === undefined ? 0 : Number(text);
}

function maybe(text: string | null | undefined): number | null {
  return text === null || text === undefined ? null : Number(text);
}

/** What the rows of `look` say. */
export function sightOf(rows: readonly Row[]): Sight {
  const of = byKind(rows);
  const [queue = []] = of("queue");
  const [tomb = []] = of("tomb");
  const waiters = of("waiter").map(([seq, grant, mode, ttl, channel, offered]) => ({
    seq: num(seq),
    grant: grant ?? "",
    mode: mode as Mode,
    ttl: num(ttl),
    channel: channel ?? "",
    offered: offered === "1",
  }));
  const [entries, all, barring, semaphore, offersEnd, seq, offered, head = null] = queue;
  return {
    lock: lockOf(of("lock")[0]),
    tomb: tomb[0] ?? null,
    tombs: tomb[1] === "1",
    share: shareOf(of("share")[0]),
    shares: sharesOf(of("shares")[0] ?? []),
    waiter: seq === null ? null : { seq: num(seq), offered: offered === "1" },
    ahead: [num(all), num(barring)],
    semaphore: maybe(semaphore),
    entries: num(entries),
    offersEnd: maybe(offersEnd),
    late: of("late").map(([late]) => num(late)),
    head,
    waiters: waiters.sort((a, b) => a.seq - b.seq),
  };
}

function lockOf(row: Row | undefined): Sight["lock"] {
  if (row === undefined) return null;
  const [state, permits, grant = null, holder = null, ttl, delay, rest, ...numbers] = row;
  const [first, count, raised, previous = null, abandoned] = numbers;
  return {
    state: num(state),
    permits: num(permits),
    grant,
    holder,
    ttl: num(ttl),
    delay: num(delay),
    rest: num(rest),
    first: first ?? "0",
    count: num(count),
    raised: raised ?? "0",
    previous,
    abandoned: abandoned === "1",
  };
}

function shareOf(row: Row | undefined): Sight["share"] {
  if (row === undefined) return null;
  const [mode, rest, ttl, delay, first = null, previous = null, abandoned] = row;
  return {
    mode: mode as Mode,
    rest: num(rest),
    ttl: num(ttl),
    delay: num(delay),
    first,
    previous,
    abandoned: abandoned === "1",
  };
}

function sharesOf(row: Row): Sight["shares"] {
  const [shared, permits, soonest, latest, living, spent, holder = null] = row;
  return {
    shared: num(shared),
    permits: num(permits),
    soonest: maybe(soonest),
    latest: maybe(latest),
    living: maybe(living),
    spent: num(spent),
    holder,
  };
}

/** What the rows of `inspect` say. */
export function shownOf(rows: readonly Row[]): Shown {
  const of = byKind(rows);
  const [lock] = of("lock");
  const shares = of("share").map(([grant, mode, holder, first = null, rest, since]) => ({
    grant: grant ?? "",
    mode: mode as Mode,
    holder: holder ?? "",
    first,
    rest: num(rest),
    since: num(since),
  }));
  const waiters = [...of("waiter")]
    .sort(([a = null], [b = null]) => num(a) - num(b))
    .map(([, grant, holder, mode]) => ({
      grant: grant ?? "",
      holder: holder ?? "",
      mode: mode as Mode,
    }));
  return {
    lock: lock === undefined || lock[1] === null ? null : holdOf(lock),
    permits: maybe(lock?.[0]),
    shares: shares.sort((a, b) => a.since - b.since || (a.grant < b.grant ? -1 : 1)),
    quiet: maybe(of("quiet")[0]?.[0]),
    waiters,
  };
}

function holdOf([, grant, holder, first, last, rest, end, since]: Row): Shown["lock"] {
  return {
    grant: grant ?? "",
    holder: holder ?? "",
    first: first ?? "0",
    last: last ?? "0",
    rest: num(rest),
    end: num(end),
    since: num(since),
  };
}
