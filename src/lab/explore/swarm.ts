import { FakeRandom } from "../../testing/fake-random.ts";
import type { StepFaults } from "../servers/sqlite-host.ts";
import { seedOf } from "../sim/choices.ts";
import type { Weather } from "../sim/network.ts";

/** The faults that a run may contain. */
export type FaultKind =
  | "pause"
  | "kill"
  | "cut"
  | "cut one way"
  | "suspend"
  | "step client"
  | "drift"
  | "server pause"
  | "server restart"
  | "server forgets"
  | "step server"
  | "power loss";

/** What one run is made of: drawn from its seed, so that each run is bad in a way of its own. */
export interface Swarm {
  readonly clients: number;
  readonly locks: number;
  readonly ttlMs: number;
  /** How often something may happen. */
  readonly everyMs: number;
  /** Weight of each fault against one of 1 for none. */
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  readonly weather: Weather;
  /** Sections of each client. */
  readonly sections: number;
  /** Whether clients also read together, take permits, try once, and take several names. */
  readonly kinds: boolean;
  /** Whether each process has two lines of work. */
  readonly twofold: boolean;
  /** Where the lock is a file: what goes wrong with its steps. */
  readonly file: { readonly durability: "normal" | "full"; readonly faults: StepFaults };
}

/** What belief survives by the protocol: everything but a lock service that loses its memory or its clock. */
const TOLERATED: readonly FaultKind[] = [
  "pause",
  "kill",
  "cut",
  "cut one way",
  "suspend",
  "step client",
  "drift",
  "server pause",
  "server restart",
];

/** And what only a guard survives: a service that loses grants, and one whose clock is set. */
export const FORGETFUL: readonly FaultKind[] = [...TOLERATED, "server forgets", "step server"];

/** What the processes of one host and their file survive. A power loss ends every belief, with those who had it. */
export const FILE_TOLERATED: readonly FaultKind[] = [
  "pause",
  "kill",
  "suspend",
  "step client",
  "power loss",
];

/** A run's make-up, from its seed. `allowed`: the faults to draw from. */
export function swarmOf(seed: number, allowed: readonly FaultKind[] = TOLERATED): Swarm {
  const random = new FakeRandom(seedOf(seed, "swarm"));
  const one = <T>(options: readonly T[], otherwise: T): T =>
    options[Math.floor(random.unit() * options.length)] ?? otherwise;
  const ttlMs = one([200, 1000, 3000, 10_000], 3000);
  const faults: Partial<Record<FaultKind, number>> = {};
  const some = (): number => (random.unit() < 0.4 ? one([0.01, 0.03, 0.1], 0.01) : 0);
  for (const kind of allowed) if (random.unit() < 0.4) faults[kind] = one([0.02, 0.1, 0.4], 0.1);
  return {
    clients: one([2, 3, 3, 5], 3),
    locks: one([1, 1, 2], 1),
    ttlMs,
    everyMs: ttlMs / one([2, 4, 8], 4),
    faults,
    weather: weatherOf(random, ttlMs),
    sections: one([2, 4, 6], 4),
    kinds: random.unit() < 0.5,
    twofold: random.unit() < 0.3,
    file: {
      durability: one(["normal", "full"], "normal"),
      faults: {
        stalls: some(),
        busy: some(),
        diskErrors: some(),
        deaths: some(),
        deaf: some(),
      },
    },
  };
}

function weatherOf(random: FakeRandom, ttlMs: number): Weather {
  const rough = random.unit();
  const delaysMs = [1, ttlMs / 50, ttlMs / 5, ttlMs * 0.7, ttlMs * 1.5];
  const rare = rough < 0.3 ? 0 : rough < 0.7 ? 0.02 : 0.1;
  const weights = [1, 0.2, rare, rare, rare / 2];
  return {
    delaysMs,
    weights,
    lose: random.unit() < 0.4 ? rare : 0,
    repeat: random.unit() < 0.3 ? rare : 0,
  };
}
