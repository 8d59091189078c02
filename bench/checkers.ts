/**
 * How fast histories are judged: P1, P3 and P5 swept over columns, the full checkers event by event, P12 by token order
 * and by search, NDJSON read and judged. `npx tsx bench/checkers.ts [millions]`. Printed, never asserted.
 */
import { CHECKERS, checkAll, PROPERTIES } from "../src/lab/checkers/index.ts";
import { FREE, type LockOp } from "../src/lab/checkers/models.ts";
import { sweep } from "../src/lab/checkers/sweep.ts";
import { searchOrder } from "../src/lab/checkers/wgl.ts";
import { ColumnsBuilder } from "../src/lab/columns.ts";
import { History, type NewEv } from "../src/lab/history.ts";
import { eventLine, headerLine } from "../src/lab/ndjson.ts";
import { verifyLines } from "../src/lab/verify.ts";

const LOCKS = 1000;
const MS = 1e6;
const millions = Number(process.argv[2] ?? 10);

function rndOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

/** A legal history of many locks at once: acquire, guarded writes, release. */
function* legal(count: number): Generator<NewEv> {
  const rnd = rndOf(12345);
  const held = Array.from({ length: LOCKS }, () => ({ token: 0n, grant: "", on: false }));
  let t = 0;
  let grants = 0;
  for (let n = 0; n < count; n += 1) {
    t += rnd() * MS;
    const k = Math.floor(rnd() * LOCKS);
    const lock = `lock-${k}`;
    const state = held[k];
    if (state === undefined) continue;
    const p = `client-${k % 50}`;
    if (!state.on) {
      state.on = true;
      state.token += 1n;
      grants += 1;
      state.grant = `grant-${grants}`;
      yield {
        t,
        p,
        k: "ok",
        f: "acquire",
        lock,
        grant: state.grant,
        token: state.token,
        deadline: t + 1e15,
      };
    } else if (rnd() < 0.3) {
      state.on = false;
      yield { t, p, k: "invoke", f: "release", lock, grant: state.grant, token: state.token };
    } else {
      const { grant, token } = state;
      yield { t, p, k: "event", f: "write", lock, res: lock, grant, token, accepted: true };
    }
  }
}

/** Rates by CPU time of this process, and by the clock: they differ where the machine is shared. */
async function timed(what: string, count: number, run: () => unknown): Promise<void> {
  const start = performance.now();
  const cpu = process.cpuUsage();
  const found = await run();
  const { user, system } = process.cpuUsage(cpu);
  const byCpu = perSecond(count / ((user + system) / 1e6));
  const byClock = perSecond(count / ((performance.now() - start) / 1000));
  console.log(`${what.padEnd(44)} ${byCpu} cpu ${byClock} wall  ${JSON.stringify(found)}`);
}

function perSecond(rate: number): string {
  const shown = rate > 1e6 ? `${(rate / 1e6).toFixed(2)} M/s` : `${(rate / 1e3).toFixed(0)} k/s`;
  return shown.padStart(11);
}

const count = Math.round(millions * 1e6);
const builder = new ColumnsBuilder(count);
await timed("events into columns (with making them)", count, () => {
  for (const event of legal(count)) builder.append(event);
  return builder.columns.length;
});
const { columns } = builder;
for (let round = 0; round < 5; round += 1)
  await timed("P1 + P3 + P5, swept over columns", count, () => sweep(columns));

const few = Math.min(count, 300_000);
const history = new History();
for (const event of legal(few)) history.append(event);
for (const id of ["P1", "P3", "P5", "P12"] as const)
  await timed(`${id}, event by event`, few, () => CHECKERS[id].check(history).verdict);
await timed(
  `all ${PROPERTIES.length} properties, event by event`,
  few,
  () => checkAll(history).filter(({ verdict }) => verdict !== true).length,
);

const lines = [headerLine(history.header), ...[...history].map(eventLine)].map((line) => ({
  text: line.slice(0, -1),
  torn: false,
}));
await timed("NDJSON read and judged (verify)", few, async () => (await verifyLines([lines])).exit);

/** Overlapping calls without tokens: only a search can tell. */
function calls(n: number): LockOp[] {
  const rnd = rndOf(1);
  const event = { i: 0, t: 0, p: "A", inc: 0, k: "ok", f: "acquire" } as const;
  const ops: LockOp[] = [];
  for (let at = 0; ops.length < n; at += 20) {
    const common = { owner: `c${at}`, token: undefined, must: true, event };
    ops.push({ ...common, f: "acquire", call: at - rnd() * 20, ret: at + rnd() * 9 });
    ops.push({ ...common, f: "release", call: at + 10 - rnd(), ret: at + 10 + rnd() * 20 });
  }
  return ops;
}
for (const n of [200, 2000])
  await timed(
    `P12 by search, ${n} calls of one lock`,
    n,
    () => searchOrder(calls(n), { kind: "mutex" }, FREE, 5e6).verdict,
  );
