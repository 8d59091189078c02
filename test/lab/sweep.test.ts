import { expect, it } from "vitest";
import { CHECKERS, type PropertyId } from "../../src/lab/checkers/index.ts";
import { sweep } from "../../src/lab/checkers/sweep.ts";
import { columnsOf } from "../../src/lab/columns.ts";
import { History, type NewEv } from "../../src/lab/history.ts";
import { cleanHistory, rndOf } from "./clean-history.ts";

const soak = process.env["RINGFENCE_SOAK"] === "1";

/** Three clients at two locks do anything in any order: right and wrong alike. */
function anything(seed: number): History {
  const rnd = rndOf(seed);
  const int = (n: number): number => Math.floor(rnd() * n);
  const history = new History();
  const wrong = rnd() < 0.7 ? 0.03 : 0.3;
  // Above 32 bits, so that both halves of a token count.
  const tokens = [2n ** 32n - 2n, 5n];
  const grants = ["g0-0", "g0-1"];
  let t = 0;
  for (let n = 0; n < 6 + int(10); n += 1) {
    t += 1 + int(9);
    const l = int(2);
    const lock = `lock-${l}`;
    if (rnd() < 0.4) {
      if (rnd() > wrong) tokens[l] = (tokens[l] ?? 0n) + BigInt(1 + int(3));
      if (rnd() > wrong) grants[l] = `g${n}-${l}`;
    }
    const of = { t, p: "ABC"[int(3)]!, lock, grant: grants[l]!, token: tokens[l]! };
    const events: NewEv[] = [
      { ...of, k: "ok", f: "acquire", deadline: t + int(9) },
      { ...of, k: "ok", f: "acquire", deadline: t + 2 },
      { ...of, k: "ok", f: "renew", deadline: t + int(12) },
      { ...of, k: "invoke", f: "release" },
      { ...of, k: "event", f: "lost" },
      { ...of, k: "event", f: "claim", res: lock, accepted: rnd() < 0.7 },
      { ...of, k: "event", f: "write", res: lock, accepted: rnd() < 0.7 },
    ];
    history.append(events[int(events.length)]!);
  }
  return history;
}

it("finds in columns whatever the full checkers find", { timeout: 600_000 }, () => {
  const found: Record<string, number> = {};
  for (let seed = 1; seed <= (soak ? 300_000 : 6000); seed += 1) {
    const history = anything(seed);
    const swept = sweep(columnsOf(history));
    const options = { tokensInAnswerOrder: true };
    for (const property of ["P1", "P3", "P5"] as const satisfies readonly PropertyId[]) {
      const { verdict, violations } = CHECKERS[property].check(history, options);
      const first = violations[0]?.witness.at(-1)?.i ?? -1;
      const outcome = `${property} ${String(verdict)}`;
      found[outcome] = (found[outcome] ?? 0) + 1;
      // The filter may stop at more than the checker does, never at less.
      if (verdict === false && !swept.beyond)
        expect([property, violations[0]?.sentence, swept[property] >= 0, seed]).toEqual([
          property,
          violations[0]?.sentence,
          true,
          seed,
        ]);
      if (verdict === false && property === "P3") expect([swept.P3, seed]).toEqual([first, seed]);
    }
  }
  for (const outcome of ["P1 true", "P1 false", "P3 true", "P3 false", "P5 true", "P5 false"])
    expect(found[outcome], outcome).toBeGreaterThan(100);
});

it("finds nothing in clean histories", () => {
  for (let seed = 1; seed <= (soak ? 100_000 : 500); seed += 1) {
    const acts = new Set(["claim", "write"]);
    const landings = cleanHistory(seed).events.filter(({ f, k }) => k !== "ok" || !acts.has(f));
    expect(sweep(columnsOf(landings)), `seed ${seed}`).toMatchObject({ P1: -1, P3: -1, P5: -1 });
  }
});

it("says where only the full checkers can judge", () => {
  const history = new History();
  history.append({ t: 0, p: "A", k: "ok", f: "acquire", lock: "l", grant: "g", mode: "shared" });
  expect(sweep(columnsOf(history)).beyond).toBe(true);
});
