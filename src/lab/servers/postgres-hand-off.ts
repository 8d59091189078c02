/** What the driver's two statements of a hand-off do: each in a transaction that has the lock's row. */
import type { Access, Waiting } from "./postgres-access.ts";
import { isLive } from "./postgres-look.ts";
import { idOf, type WaiterRow } from "./postgres-rows.ts";
import {
  type Args,
  above,
  arg,
  concat,
  largest,
  lastOf,
  MOST,
  type Model,
  us,
} from "./postgres-values.ts";

type Rows = Waiting<readonly string[]>;

/** How many shared waiters are let in at once. */
const AT_ONCE = 64;

interface Name {
  readonly now: number;
  readonly waiters: readonly WaiterRow[];
  readonly shared: boolean;
  readonly buried: boolean;
}

function lookAt(at: Access, key: string): Name {
  const now = at.clock();
  const waiters = at.rows("waiters", (row) => row.key === key).sort((a, b) => a.seq - b.seq);
  const shared = at.rows("shares", (row) => row.key === key).length > 0;
  const buried = at.rows("tombs", (row) => row.key === key && row.until > now).length > 0;
  return { now, waiters, shared, buried };
}

/** Whose turn it is: one that is alone, or the shared ones up to the first that is not. */
function turnOf({ now, waiters }: Name): readonly WaiterRow[] {
  const live = waiters.filter((row) => isLive(row, now)).slice(0, AT_ONCE);
  if (live[0]?.mode !== "shared") return live.slice(0, 1);
  const alone = live.findIndex(({ mode }) => mode !== "shared");
  return alone < 0 ? live : live.slice(0, alone);
}

function* handOver(at: Access, args: Args): Rows {
  const [key, grant] = [arg(args, 1), arg(args, 2)];
  const name = lookAt(at, key);
  const { now, waiters } = name;
  const turn = turnOf(name);
  const settled = waiters.every(({ offered }) => offered === null);
  const simple = !name.shared && settled && turn[0]?.mode !== "permits";
  const freed = yield* at.change(
    "locks",
    (row) => row.key === key && row.grant_id === grant && row.expires > now && simple,
    (row) => {
      const state = waiters.length > 0 || name.buried ? 2 : 0;
      return { ...row, state, grant_id: null, holder: null, abandoned: false };
    },
  );
  if (freed.length === 0) return [];
  for (const { seq, ttl_ms, channel, grant_id } of turn) {
    const end = now + us(Math.min(ttl_ms, Number(args[2])));
    yield* at.change(
      "waiters",
      (row) => row.key === key && row.seq === seq,
      (row) => ({ ...row, offered: end, until: Math.max(row.until, end) }),
    );
    at.notify(channel, grant_id);
  }
  return ["released"];
}

function* takeOffer(at: Access, args: Args): Rows {
  const [key, grant, holder, ttl, delay, tokens] = args.map((each) => each ?? "");
  const name = lookAt(at, key ?? "");
  const { now, waiters } = name;
  const own = waiters.find((row) => row.grant_id === grant);
  if (own?.mode !== "exclusive" || own.offered === null || own.offered <= now || name.shared)
    return [];
  const tomb = at.get("tombs", idOf(own.key, own.grant_id));
  const others = waiters.filter((row) => row !== own);
  const before = ({ offered, seq, until, missed }: WaiterRow): boolean =>
    offered !== null || (seq < own.seq && until > now && !missed);
  if ((tomb !== undefined && tomb.until > now) || others.some(before)) return [];
  const taken = yield* at.change(
    "locks",
    (row) =>
      row.key === key &&
      row.grant_id === null &&
      largest(above(row), row.raised + 1n) + BigInt(tokens ?? 1) <= MOST,
    (row) => ({
      ...row,
      state: others.length > 0 || name.buried ? 2 : 1,
      permits: 1,
      grant_id: own.grant_id,
      holder: holder ?? "",
      ttl_ms: Number(ttl),
      delay_ms: Number(delay),
      expires: at.clock() + us(ttl),
      since: at.clock(),
      previous: lastOf(row),
      first: largest(at.nextval(), above(row), row.raised + 1n, 1n),
      count: Number(tokens),
    }),
  );
  const [lock] = taken;
  if (lock === undefined) return [];
  yield* at.change(
    "waiters",
    (row) => row.key === key && row.seq === own.seq,
    () => undefined,
  );
  return [concat("granted|", lock.first, "|", lock.previous, "|", lock.abandoned)];
}

export const handOffModel: Readonly<Record<string, Model>> = { handOver, takeOffer };
