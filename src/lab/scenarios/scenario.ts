import type { CheckOptions, PropertyId } from "../checkers/index.ts";
import type { NaiveHabits } from "../clients/naive-client.ts";
import type { PlainHabits } from "../clients/plain-client.ts";
import type { RedlockHabits } from "../clients/redlock-client.ts";
import type { GuardKind } from "../servers/items.ts";
import type { PostgresOptions } from "../servers/postgres-server.ts";
import type { AppendOnly } from "../servers/redis.ts";
import type { RedisPlaceOptions } from "../servers/redis-place.ts";
import type { Tamper } from "../servers/table.ts";
import type { Weather } from "../sim/network.ts";
import type { Play } from "./play.ts";

/** Who plays: a lock as people write it, the same with the articles' check on write, Ringfence. */
export type ArmName = "naive" | "fence" | "ringfence";
export const ARMS: readonly ArmName[] = ["naive", "fence", "ringfence"];

/** Which lock an arm uses. */
type LockSpec =
  | {
      readonly kind: "redis";
      readonly habits?: NaiveHabits;
      readonly appendOnly?: AppendOnly;
      readonly replicas?: number;
    }
  | { readonly kind: "redlock"; readonly habits: RedlockHabits; readonly nodes?: number }
  /** The production core over the production Redlock driver. */
  | { readonly kind: "quorum"; readonly quorum: number; readonly nodes?: number }
  /** A lock by hand in a PostgreSQL; without habits the production core over the lease table in one. */
  | {
      readonly kind: "postgres";
      readonly habits?: PlainHabits;
      readonly server?: PostgresOptions;
      /** Whether a standby receives what it logs. */
      readonly standby?: boolean;
    }
  /** The production core over the production Redis driver; over the memory driver without `redis`. `tamper`: a planted fault. */
  | { readonly kind: "core"; readonly redis?: RedisSetup; readonly tamper?: Tamper };

/** The servers under Ringfence's Redis driver, and what it is told. */
export type RedisSetup = Pick<RedisPlaceOptions, "replicas" | "appendOnly" | "driver">;

/** One arm: its lock, its guard, and what is expected of the named property. */
export interface Arm {
  readonly lock: LockSpec;
  readonly guard: GuardKind;
  /** Whether the property holds in this arm. */
  readonly holds: boolean;
}

/** One failure from the literature, as data: what happens, and what must and must not come of it. */
export interface Scenario {
  /** `S01` … `S59`, as in the list of failures. */
  readonly id: string;
  /** For the command line: `pause-past-ttl`. */
  readonly name: string;
  readonly title: string;
  /** What the naive arm must break, and ours must keep. */
  readonly property: PropertyId;
  readonly arms: Readonly<Record<ArmName, Arm>>;
  readonly weather?: Weather;
  readonly check?: CheckOptions;
  /** How many seeds each arm is run with: the naive one must fail in one of them, ours in none. Default 1. */
  readonly seeds?: number;
  /** How long it may take, in milliseconds; simulated ones, or real ones. */
  readonly withinMs: number;
  /** How it runs with real servers and processes. Absent: only the simulator can, or has what it needs. */
  readonly real?: RealTerms;
  /**
   * What happens: one chain of promises, in virtual time or in real time. `must` names what has to come to an end, which
   * is judged as P8. One that only the simulator can run may ask for its `Stage`.
   */
  play(stage: Play): Promise<void>;
}

/** What a scenario needs to run with real servers and processes. */
interface RealTerms {
  /** Its clients, started before it begins: each in a process of its own, or several in one. */
  readonly clients: readonly (string | readonly string[])[];
  /** Whether it does nothing to the lock server or the way to it, so that a file serves Ringfence's arm as well. */
  readonly file?: boolean;
  /** Whether somebody hears at the lock's Redis whom it tells. */
  readonly wakes?: boolean;
  /** Whether it moves the wall clock of a process or a server. */
  readonly clock?: boolean;
  /**
   * Clients that are on a host of their own, where network namespaces can be made: cut off from the lock's server they are
   * gone without a word. They reach nothing but that server.
   */
  readonly away?: readonly string[];
  /** What Ringfence is told of its Redis, as in a URL: `replicas=1`. */
  readonly query?: string;
}

/** The arms of most scenarios: Redis by hand, the same with a counter and a check on write, and Ringfence. */
export function arms(
  options: {
    readonly naive?: NaiveHabits;
    readonly fenceHolds?: boolean;
    readonly appendOnly?: AppendOnly;
    readonly replicas?: number;
    readonly driver?: RedisSetup["driver"];
  } = {},
): Readonly<Record<ArmName, Arm>> {
  const { naive = {}, fenceHolds = false, appendOnly, replicas, driver } = options;
  const servers = {
    ...(appendOnly === undefined ? {} : { appendOnly }),
    ...(replicas === undefined ? {} : { replicas }),
  };
  const redis = { kind: "redis" as const, habits: naive, ...servers };
  const own = { ...servers, ...(driver === undefined ? {} : { driver }) };
  return {
    naive: { lock: redis, guard: "none", holds: false },
    fence: {
      lock: { ...redis, habits: { ...naive, token: true } },
      guard: "fence",
      holds: fenceHolds,
    },
    ringfence: { lock: { kind: "core", redis: own }, guard: "claim", holds: true },
  };
}
