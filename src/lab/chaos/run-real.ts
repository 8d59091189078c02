import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, RingfenceError } from "../../core/errors.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import type { Verdict } from "../checkers/index.ts";
import { History } from "../history.ts";
import { type ArmResult, judge, type ScenarioResult, scenarioResult } from "../run.ts";
import { ARMS, type ArmName, type Scenario } from "../scenarios/scenario.ts";
import { eventsIn } from "./journal.ts";
import type { How } from "./parts.ts";
import { PostgresServers } from "./postgres-arm.ts";
import { RealStage, type RealStore } from "./real-stage.ts";
import { canMoveWallClocks, compileShim } from "./wall-clock.ts";

/** Reads of two processes' clocks in one instant differ by less. */
const EPSILON_NS = 1e6;
/** Scenarios that run at the same time. */
const SIDE_BY_SIDE = 3;
/** For how many times the time of a scenario is waited for what should come to an end and is late. */
const LATE_TIMES = 3;

/** How real runs go about it. */
export interface RealOptions {
  /** Which store Ringfence's arm uses; Redis by default. */
  readonly store?: RealStore;
  readonly onResult?: (result: ScenarioResult) => void;
}

/** Whether a scenario can run with real servers here, and why not. */
export function whyNotReal(
  { id, real, arms }: Scenario,
  store: RealStore = "redis",
): string | null {
  if (real === undefined) return `${id} runs in the simulator only`;
  const there = real.file === true || (store === "postgres" && aboutPostgres(arms));
  if (store !== "redis" && !there)
    return `${id} disturbs its lock server, and is played with no other one`;
  if (real.clock === true && !canMoveWallClocks())
    return `${id} moves wall clocks, which takes Linux and a C compiler (cc)`;
  return null;
}

/**
 * Runs scenarios with real servers, real processes and real time, the arms of each side by side.
 * @throws InvalidArgumentError for one that cannot run so here; BackendConfigError where there is no such server
 */
export async function runReal(
  scenarios: readonly Scenario[],
  { store = "redis", onResult }: RealOptions = {},
): Promise<readonly ScenarioResult[]> {
  for (const scenario of scenarios) {
    const why = whyNotReal(scenario, store);
    if (why !== null) throw new InvalidArgumentError(`Expected a scenario for --real: ${why}.`);
  }
  const folder = mkdtempSync(join(tmpdir(), "ringfence-lab-"));
  // Servers that refuse root have folders of their own in it.
  chmodSync(folder, 0o711);
  const postgres = new PostgresServers(folder);
  try {
    // First of all: where there is none, nothing has been done in vain.
    if (store === "postgres" || scenarios.some(({ arms }) => aboutPostgres(arms)))
      await postgres.prepare();
    const moves = scenarios.some(({ real }) => real?.clock === true);
    const shim = moves ? compileShim(folder) : undefined;
    const results: ScenarioResult[] = [];
    const left = [...scenarios.entries()];
    const lane = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const [index, scenario] = next;
        const arms = await Promise.all(
          ARMS.map(async (arm) => playReal(scenario, arm, { folder, store, shim, postgres })),
        );
        const result = scenarioResult(scenario, arms);
        results[index] = result;
        onResult?.(result);
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, lane));
    return results;
  } finally {
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function aboutPostgres({ naive }: Scenario["arms"]): boolean {
  return naive.lock.kind === "postgres";
}

async function playReal(scenario: Scenario, arm: ArmName, how: How): Promise<ArmResult> {
  const folder = mkdtempSync(join(how.folder, `${scenario.id}-${arm}-`));
  let stage: RealStage;
  try {
    stage = await RealStage.open(scenario, arm, { ...how, folder });
  } catch (error) {
    // No such server here; anything else is a machine that is too busy to start one in time.
    if (error instanceof RingfenceError) throw error;
    return undecided(scenario, arm, error);
  }
  let failure: string | null;
  try {
    failure = (await untilOver(scenario, arm, stage)) ?? stage.vacuous;
  } finally {
    await stage.close();
  }
  const history = merged(stage.files, { scenario: scenario.id, backend: arm, seed: "real" });
  const check = { ...scenario.check, epsilonNs: EPSILON_NS };
  // What has not ended since the scenario was not played shows nothing.
  const unfinished = failure === null ? stage.unfinished : [];
  const judged = judge({ ...scenario, check }, history, { demands: stage.demands, unfinished });
  const verdict: Verdict =
    failure === null || judged.verdict === false
      ? judged
      : { ...judged, verdict: "unknown", reasons: [...judged.reasons, failure] };
  const asExpected = (verdict.verdict !== false) === scenario.arms[arm].holds;
  return { arm, verdict, history, seed: 0, runs: 1, hash: 0, asExpected, notes: stage.notes };
}

/** Nothing was played, and there is nothing to judge. */
function undecided(scenario: Scenario, arm: ArmName, error: unknown): ArmResult {
  const history = new History({ scenario: scenario.id, backend: arm, seed: "real" });
  const nothing = judge(scenario, history, { demands: 0, unfinished: [] });
  const reasons = [...nothing.reasons, error instanceof Error ? error.message : String(error)];
  const verdict: Verdict = { ...nothing, verdict: "unknown", reasons };
  return { arm, verdict, history, seed: 0, runs: 1, hash: 0, asExpected: false };
}

/**
 * Until everything that has to come to an end has, or the time is over. Returns why the scenario could not be played to its
 * end, where it could not: a busy machine, a server that does not start.
 */
async function untilOver(
  scenario: Scenario,
  armName: ArmName,
  stage: RealStage,
): Promise<string | null> {
  return await new Promise<string | null>((resolve) => {
    const { property, arms, withinMs } = scenario;
    let late: string | null = null;
    const done = (why: string | null): void => {
      timer.cancel();
      resolve(why);
    };
    const over = (): void => {
      // Of another property only a part was put to the test; to wait for ever is what P8 is about.
      if (property !== "P8") done("it was not played to its end in time");
      else if (late !== null || !arms[armName].holds) done(null);
      else {
        // Whoever should get on is slow or hangs. What ends after all was slow, and the machine may be why.
        late = "it came to its end later than the scenario allows";
        timer = systemClock.timer(LATE_TIMES * withinMs, over, true);
      }
    };
    let timer = systemClock.timer(withinMs, over, true);
    stage.onSettled = () => {
      if (stage.unfinished.length === 0) done(late);
    };
    stage.onFailed = (error) => {
      done(error instanceof Error ? error.message : String(error));
    };
    void stage.must("the scenario", scenario.play(stage));
  });
}

/** What all processes wrote down, in the order in which it happened. */
function merged(
  files: readonly string[],
  header: { readonly scenario: string; readonly backend: string; readonly seed: string },
): History {
  const events = files.flatMap((file) => eventsIn(file));
  events.sort((a, b) => a.t - b.t);
  const start = events[0]?.t ?? 0;
  const history = new History(header);
  for (const event of events) {
    const { t, deadline } = event;
    // A copy: the history numbers it anew.
    const until = deadline === undefined ? {} : { deadline: deadline - start };
    history.append({ ...event, t: t - start, ...until });
  }
  return history;
}

export type { RealStore } from "./real-stage.ts";
