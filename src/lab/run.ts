import { type Conclusion, checkAll, conclude, type Verdict } from "./checkers/index.ts";
import { History } from "./history.ts";
import { ARMS, type ArmName, type Scenario } from "./scenarios/scenario.ts";
import { Stage } from "./scenarios/stage.ts";
import { randomChoices } from "./sim/choices.ts";
import { sealed } from "./sim/sealed.ts";
import { World } from "./sim/world.ts";

/** One arm of a scenario, run over its seeds: the worst run is kept. */
export interface ArmResult {
  readonly arm: ArmName;
  /** The named property in the worst run. */
  readonly verdict: Verdict;
  readonly seed: number;
  readonly runs: number;
  readonly history: History;
  /** Of the event stream: the same seed gives the same. */
  readonly hash: number;
  /** Whether it came out as the scenario says. */
  readonly asExpected: boolean;
  /** Where a real run had to play something in another way than it could be: what, and why. */
  readonly notes?: readonly string[];
}

/** A scenario's outcome. */
export interface ScenarioResult {
  readonly scenario: Scenario;
  readonly arms: Readonly<Record<ArmName, ArmResult>>;
  /** What Ringfence's arm came to, beside the naive one's. */
  readonly conclusion: Conclusion;
}

/** Runs one arm once, in virtual time. */
export async function playOnce(
  scenario: Scenario,
  arm: ArmName,
  seed: number,
): Promise<{ readonly history: History; readonly hash: number; readonly verdict: Verdict }> {
  const history = new History({ scenario: scenario.id, seed: String(seed), backend: arm });
  const { weather } = scenario;
  return await sealed(async () => {
    const world = new World({
      seed,
      choices: randomChoices(seed, false),
      history,
      ...(weather === undefined ? {} : { weather }),
    });
    const stage = new Stage(world, arm, scenario.arms[arm]);
    const failure: { error?: Error } = {};
    stage.must("the scenario", scenario.play(stage)).catch((error: unknown) => {
      failure.error = error instanceof Error ? error : new Error(String(error));
    });
    await world.run(scenario.withinMs, () => failure.error !== undefined);
    if (failure.error !== undefined) throw failure.error;
    return { history, hash: world.probe.hash, verdict: judge(scenario, history, stage) };
  });
}

/** What a run came to by the scenario's own property. `stage`: what had to come to an end, and what did not. */
export function judge(
  { property, check }: Scenario,
  history: History,
  stage: Pick<Stage, "demands" | "unfinished">,
): Verdict {
  const [verdict] = checkAll(history, check, [property]);
  if (verdict === undefined) throw new RangeError(`No checker for ${property}.`);
  if (property !== "P8") return verdict;
  const judged = verdict.judged + stage.demands;
  const { unfinished } = stage;
  if (unfinished.length === 0) return { ...verdict, judged };
  const sentence = `${unfinished.join(" and ")} did not come to an end in the time that the scenario allows.`;
  return {
    ...verdict,
    verdict: false,
    judged,
    violationCount: unfinished.length,
    violations: [{ sentence, witness: [] }],
  };
}

async function runArm(scenario: Scenario, arm: ArmName, firstSeed: number): Promise<ArmResult> {
  const { seeds = 1 } = scenario;
  let worst: ArmResult | undefined;
  for (let seed = firstSeed; seed < firstSeed + seeds; seed += 1) {
    const run = await playOnce(scenario, arm, seed);
    const again = await playOnce(scenario, arm, seed);
    if (run.hash !== again.hash)
      throw new Error(`${scenario.id} ${arm}: seed ${seed} does not repeat itself`);
    const result = {
      arm,
      seed,
      runs: seed - firstSeed + 1,
      ...run,
      asExpected: (run.verdict.verdict !== false) === scenario.arms[arm].holds,
    };
    if (run.verdict.verdict === false) return result;
    // Of runs that held, the one that put the most to the test.
    if (worst === undefined || run.verdict.judged > worst.verdict.judged) worst = result;
  }
  if (worst === undefined) throw new RangeError("Expected at least one seed.");
  return { ...worst, runs: seeds };
}

/** Runs all arms of a scenario, each seed twice. */
export async function runScenario(scenario: Scenario, firstSeed = 1): Promise<ScenarioResult> {
  const results: ArmResult[] = [];
  for (const arm of ARMS) results.push(await runArm(scenario, arm, firstSeed));
  return scenarioResult(scenario, results);
}

/** The arms' results, in the order of `ARMS`, as the scenario's. */
export function scenarioResult(
  scenario: Scenario,
  [naive, fence, ringfence]: readonly ArmResult[],
): ScenarioResult {
  if (naive === undefined || fence === undefined || ringfence === undefined)
    throw new RangeError("An arm is missing.");
  return {
    scenario,
    arms: { naive, fence, ringfence },
    conclusion: conclude(ringfence.verdict, naive.verdict),
  };
}
