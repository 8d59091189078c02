/** The properties P1 to P16, in their order. */

import type { Ev } from "../history.ts";
import { actions } from "./actions.ts";
import { belief } from "./belief.ts";
import { confidence, notices } from "./confidence.ts";
import { fence } from "./fence.ts";
import { hold } from "./hold.ts";
import { idempotency } from "./idempotency.ts";
import { isolation } from "./isolation.ts";
import { linearizability } from "./linearizability.ts";
import { ownership, renewal } from "./ownership.ts";
import { freedom } from "./progress.ts";
import { queue } from "./queue.ts";
import { tokens } from "./tokens.ts";
import { unguarded } from "./unguarded.ts";
import { vacuity } from "./vacuity.ts";
import type { Checker, CheckOptions, PropertyId, Verdict } from "./verdict.ts";
import { World } from "./world.ts";

/** Every checker, by its property. */
export const CHECKERS: Readonly<Record<PropertyId, Checker>> = {
  P1: belief,
  P2: actions,
  P3: fence,
  P4: isolation,
  P5: tokens,
  P6: confidence,
  P7: notices,
  P8: freedom,
  P9: queue,
  P10: idempotency,
  P11: ownership,
  P12: linearizability,
  P13: hold,
  P14: renewal,
  P15: unguarded,
  P16: vacuity,
};

/** Judges several properties in one pass: a fold over events, which keeps none of them but for witnesses. */
export class Judgement {
  readonly #world: World;
  readonly #folds: readonly ReturnType<Checker["fold"]>[];

  constructor(properties: readonly PropertyId[], options: CheckOptions = {}) {
    this.#world = new World(options.limit);
    this.#folds = properties.map((id) => CHECKERS[id].fold(options));
  }

  step(event: Ev): void {
    const world = this.#world;
    world.step(event);
    for (const fold of this.#folds) fold.step(event, world);
  }

  finish(): readonly Verdict[] {
    return this.#folds.map((fold) => fold.finish(this.#world));
  }
}

/** All properties. */
export const PROPERTIES: readonly PropertyId[] = Object.values(CHECKERS).map(({ id }) => id);

/** Judges a whole history. */
export function checkAll(
  history: Iterable<Ev>,
  options: CheckOptions = {},
  properties: readonly PropertyId[] = PROPERTIES,
): readonly Verdict[] {
  const judgement = new Judgement(properties, options);
  for (const event of history) judgement.step(event);
  return judgement.finish();
}

export { type Conclusion, conclude } from "./vacuity.ts";
export type {
  Checker,
  CheckOptions,
  PropertyId,
  Verdict,
} from "./verdict.ts";
