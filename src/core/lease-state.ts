import type { LostReason } from "./errors.ts";

/** What a holder may believe. `jeopardy`: the last renewal failed or is overdue, the lease is not lost yet. */
export type LeaseState = "held" | "jeopardy" | "lost" | "released" | "exported";

/**
 * A lease's state with what belongs to it. A release that is under way counts as released. `answered`: the backend spoke
 * when the lease was last in doubt.
 */
export type Phase =
  | { readonly state: "held" }
  | { readonly state: "exported" }
  | { readonly state: "jeopardy"; readonly answered: boolean }
  | { readonly state: "released"; readonly confirmed: boolean }
  | { readonly state: "lost"; readonly reason: LostReason };

/** Something that happened to a lease. */
export type LeaseInput =
  | { readonly kind: "renewed" }
  /** A renewal failed or is overdue, a session store lost its link, the wall clock jumped. `answered`: the backend spoke. */
  | { readonly kind: "doubt"; readonly answered: boolean }
  /** The deadline passed. */
  | { readonly kind: "deadline" }
  /** The backend or the manager says that it is over. */
  | { readonly kind: "gone"; readonly reason: LostReason }
  | { readonly kind: "release" }
  | { readonly kind: "confirmed" }
  | { readonly kind: "export" };

/** What the holder is told after a step; each at most once. */
export type LeaseOutput = "jeopardy" | "safe" | "lost" | null;

/** What one input does. */
interface Step {
  readonly phase: Phase;
  readonly output: LeaseOutput;
}

const HELD: Phase = { state: "held" };
const EXPORTED: Phase = { state: "exported" };
const RELEASING: Phase = { state: "released", confirmed: false };
const RELEASED: Phase = { state: "released", confirmed: true };

// Every lease takes these two steps: they are made once.
const TO_RELEASING: Step = { phase: RELEASING, output: null };
const TO_RELEASED: Step = { phase: RELEASED, output: null };

/** The state of a fresh lease. */
export const FRESH: Phase = HELD;

/**
 * The lease's state machine, pure: `held → jeopardy → held | lost`, and from held or jeopardy at once to lost, released
 * or exported. Terminal states stay, with one exception: a release that finds the record gone before the deadline turns
 * `released` into `lost`.
 */
export function step(phase: Phase, input: LeaseInput): Step {
  const same = { phase, output: null } as const;
  if (phase.state === "released") return whileReleasing(phase, input);
  if (phase.state === "lost" || phase.state === "exported") return same;
  switch (input.kind) {
    case "renewed":
      return phase.state === "held" ? same : { phase: HELD, output: "safe" };
    case "doubt": {
      if (phase.state === "held")
        return { phase: { state: "jeopardy", answered: input.answered }, output: "jeopardy" };
      return { phase: { state: "jeopardy", answered: input.answered }, output: null };
    }
    case "deadline": {
      // Nobody answered the last time we asked: more than that cannot be said.
      const reason = phase.state === "jeopardy" && !phase.answered ? "unreachable" : "expired";
      return { phase: { state: "lost", reason }, output: "lost" };
    }
    case "gone":
      return { phase: { state: "lost", reason: input.reason }, output: "lost" };
    case "release":
      return TO_RELEASING;
    case "export":
      return { phase: EXPORTED, output: null };
    case "confirmed":
      return same;
  }
}

function whileReleasing(phase: Phase & { state: "released" }, input: LeaseInput): Step {
  if (input.kind === "confirmed") return TO_RELEASED;
  if (input.kind === "gone" && !phase.confirmed)
    return { phase: { state: "lost", reason: input.reason }, output: "lost" };
  return { phase, output: null };
}
