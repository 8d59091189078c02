import { expect, it } from "vitest";
import { checkAll } from "../../src/lab/checkers/index.ts";
import { decodeCase, encodeCase } from "../../src/lab/explore/replay-string.ts";
import { search } from "../../src/lab/explore/search.ts";
import {
  coreSubject,
  fileSubject,
  redisSubject,
  SUBJECTS,
} from "../../src/lab/explore/subjects.ts";
import { explore, replay } from "../../src/lab/index.ts";
import { seedOf } from "../../src/lab/sim/choices.ts";
import { sealed } from "../../src/lab/sim/sealed.ts";
import { SOAK, size } from "../fixtures/soak.ts";

// The soak runs the same thing over 50,000 schedules on each store, each of them twice.
it.each(
  [coreSubject(), fileSubject(), redisSubject()].map((subject) => [subject.name, subject] as const),
)(
  "no schedule breaks the production core and driver (%s), and each repeats itself",
  { timeout: SOAK ? 8 * 3_600_000 : 120_000 },
  async (_name, subject) => {
    const seed = Number(process.env["RINGFENCE_SEED"] ?? 1);
    const runs = size(30, Number(process.env["RINGFENCE_RUNS"] ?? 50_000));
    // A few always, however busy the machine is; as many more as there is time for.
    for (const part of [
      { seed, runs: 3 },
      { seed: seed + 3, runs: runs - 3, ...(SOAK ? {} : { budgetMs: 3000 }) },
    ]) {
      const { found } = await search(subject, { ...part, twice: true });
      expect(found === null ? "" : encodeCase({ ...found.case, picks: null })).toBe("");
    }
  },
);

// A schedule over five servers, or over sessions with one, takes ten times as long.
it.each([
  ["redlock", size(3, 5000)],
  ["postgres", size(5, 10_000)],
] as const)(
  "no schedule breaks the production core and driver (%s), and each repeats itself",
  {
    timeout: SOAK ? 8 * 3_600_000 : 30_000,
  },
  async (name, runs) => {
    const subject = SUBJECTS.find((each) => each.name === name);
    if (subject === undefined) throw new Error("no such subject");
    const outcome = await search(subject, { seed: 1, runs, twice: true });
    const { found } = outcome;
    expect(found === null ? "" : encodeCase({ ...found.case, picks: null })).toBe("");
    expect(outcome.runs).toBe(runs);
  },
);

it("a Redis that forgets, fails over and has its clock set breaks exclusion, and the resource loses nothing", {
  timeout: SOAK ? 3_600_000 : 120_000,
}, async () => {
  const subject = SUBJECTS.find(({ name }) => name === "redis-forgets");
  if (subject === undefined) throw new Error("no such subject");
  let [seed, broken] = [0, 0];
  while (broken < size(2, 300) && seed < size(100, 10_000)) {
    seed += 1;
    const trial = await subject.run(seed, undefined);
    const lost = trial.broken.map(({ property }) => property);
    expect([seed, lost]).toEqual([seed, []]);
    const [exclusion] = checkAll(trial.history, {}, ["P1"]);
    if (exclusion?.verdict === false) broken += 1;
  }
  expect(broken).toBe(size(2, 300));
});

it("a seed gives the same history twice, and with eight times as many turns between events", {
  timeout: SOAK ? 3_600_000 : 120_000,
}, async () => {
  const { runCore } = await import("../../src/lab/explore/core-run.ts");
  const { FILE_TOLERATED, swarmOf } = await import("../../src/lab/explore/swarm.ts");
  let sections = 0;
  for (let seed = 1; seed <= size(3, 60); seed += 1)
    for (const store of ["memory", "sqlite", "redis", "postgres"] as const) {
      const swarm = swarmOf(seed, store === "sqlite" ? FILE_TOLERATED : undefined);
      const once = await runCore({ seed, swarm, store });
      const again = await runCore({ seed, swarm, store });
      const patient = await runCore({ seed, swarm, store, turns: 256 });
      // In a sealed run promises run until none is left.
      const sealedRun = await sealed(async () => runCore({ seed, swarm, store }));
      const hashes = [again.hash, patient.hash, sealedRun.hash];
      expect([seed, ...hashes]).toEqual([seed, once.hash, once.hash, once.hash]);
      sections += once.sections;
    }
  expect(sections).toBeGreaterThan(30);
});

it.each([
  ["S04", "random"],
  ["S04", "bounded"],
  ["S11", "random"],
  ["S11", "pct"],
  ["S12", "random"],
  ["S12", "pct"],
  ["S21", "bounded"],
] as const)(
  "%s is found by search (%s) from clients that only work, and replays from its line",
  { timeout: 60_000 },
  async (subject, strategy) => {
    const { counterexample, conclusion } = await explore({ subject, strategy, minutes: 1 });
    expect(conclusion).toBe("violated");
    expect(counterexample!.replay.length).toBeLessThanOrEqual(2048);
    const again = await replay(counterexample!.replay);
    expect(again.counterexample?.broken.map(({ violations }) => violations[0]?.sentence)).toEqual(
      counterexample!.broken.map(({ violations }) => violations[0]?.sentence),
    );
    expect(counterexample!.test).toContain(counterexample!.replay);
  },
);

it("what shrinking leaves is all needed: each decision that is taken away makes it hold", async () => {
  const { counterexample } = await explore({ subject: "S04", minutes: 1 });
  const { picks, ...rest } = decodeCase(counterexample!.replay);
  let marks = 0;
  for (const [site, stream] of picks!)
    for (const [index, picked] of stream.entries()) {
      if (picked === 0) continue;
      marks += 1;
      const fewer = new Map(picks);
      fewer.set(
        site,
        stream.map((each, i) => (i === index ? 0 : each)),
      );
      const { conclusion } = await replay(encodeCase({ ...rest, picks: fewer }));
      expect(conclusion).toBe("held");
    }
  expect(marks).toBeGreaterThan(0);
  expect(marks).toBeLessThan(6);
});

it("a replay line comes back as it was, and a broken one is refused", () => {
  const picks = new Map([
    ["fault", [0, 0, 3]],
    ["link A>S", [1]],
  ]);
  const line = encodeCase({ subject: "core", seed: 7, picks });
  expect(line).toMatch(/^lab1:[\w-]+$/);
  expect(decodeCase(line)).toEqual({ subject: "core", seed: 7, picks });
  expect(decodeCase(encodeCase({ subject: "core", seed: 7, picks: null })).picks).toBeNull();
  for (const bad of ["", "lab1:", "lab2:abc", line.slice(0, -4), `${line}%`])
    expect(() => decodeCase(bad)).toThrow("lab1:");
});

it("subjects that are there to be broken say so", () => {
  expect(SUBJECTS.filter(({ ours }) => ours).map(({ name }) => name)).toEqual([
    "core",
    "sqlite",
    "redis",
    "redis-forgets",
    "redlock",
    "postgres",
  ]);
});

it("seeds of different texts differ", () => {
  const seeds = Array.from({ length: 1000 }, (_, i) => seedOf(1, `site ${i}`));
  expect(new Set(seeds).size).toBe(1000);
});
