import { expect, it } from "vitest";
import { search } from "../../src/lab/explore/search.ts";
import { coreSubject, redisSubject } from "../../src/lab/explore/subjects.ts";
import { MUTANTS, type Mutant, TRAPS } from "../../src/lab/mutants.ts";
import { playOnce } from "../../src/lab/run.ts";
import { SCENARIOS } from "../../src/lab/scenarios/index.ts";

async function survives({ killer, tamper }: Mutant): Promise<boolean> {
  if (killer === "core") return (await search(coreSubject(tamper), { runs: 40 })).found === null;
  const scenario = [...SCENARIOS, ...TRAPS].find(({ id }) => id === killer)!;
  const ringfence = { ...scenario.arms.ringfence, lock: { kind: "core", tamper } } as const;
  const arms = { ...scenario.arms, ringfence };
  return (await playOnce({ ...scenario, arms }, "ringfence", 1)).verdict.verdict !== false;
}

it.each(MUTANTS.map((mutant) => [mutant.name, mutant.killer, mutant] as const))(
  "a wrong driver is noticed: %s (%s)",
  { timeout: 90_000 },
  async (_name, _killer, mutant) => {
    expect(await survives(mutant)).toBe(false);
  },
);

it.each(
  MUTANTS.filter(({ killer }) => killer === "core").map((mutant) => [mutant.name, mutant] as const),
)(
  "the exploration of the Redis driver notices it as well: %s",
  {
    timeout: 90_000,
  },
  async (_name, { tamper }) => {
    const { found } = await search(redisSubject(tamper), { runs: 40 });
    expect(found?.trial.broken.length).toBeGreaterThan(0);
  },
);

it.each(TRAPS.map((trap) => [trap.id, trap] as const))(
  "the right driver passes %s",
  async (_id, trap) => {
    const { verdict } = await playOnce(trap, "ringfence", 1);
    expect(verdict.violations).toEqual([]);
    expect(verdict.judged).toBeGreaterThan(0);
  },
);
