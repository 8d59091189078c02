import type { Declaration } from "./capabilities.ts";
import type { Clock } from "./clock.ts";
import type { DueQueue } from "./due-queue.ts";
import type { Events } from "./events.ts";
import type { Keepalive } from "./keepalive.ts";
import type { Link } from "./link.ts";
import type { LiveLease } from "./live-lease.ts";
import type { Settings } from "./options.ts";
import type { ProcessHold } from "./process-hold.ts";
import type { Random } from "./random.ts";
import type { Returns } from "./returns.ts";
import type { GrantIds, Tenure } from "./tenure.ts";
import type { HolderClock } from "./validity.ts";
import type { Wakes } from "./wakes.ts";

/** The parts of one manager that its queues, tickets and leases share. */
export interface Engine {
  readonly settings: Settings;
  readonly declared: Declaration;
  /** The observer's clock: budgets and polls. */
  readonly clock: Clock;
  readonly holderClock: HolderClock;
  readonly random: Random;
  readonly events: Events;
  readonly link: Link;
  readonly returns: Returns;
  readonly keepalive: Keepalive;
  readonly hold: ProcessHold;
  readonly keeper: { deadlineMs(lease: LiveLease): number };
  /** Waiting tickets by grant id, for wake-ups. */
  readonly wakes: Wakes;
  /** Waiters by the time at which something is due for them. */
  readonly waits: DueQueue<WaitingPlace>;
  /** No lease is given any more. */
  readonly closing: boolean;
  newIds(): GrantIds;
  newLease(tenure: Tenure, previousToken: bigint | null, now: number): LiveLease;
  /** A queue that has nothing left may be forgotten. */
  forget(name: string): void;
}

/** A waiter as the timer of all waits sees it. */
export interface WaitingPlace {
  dueAt: number;
  /** Something is due: the end of its wait, or a note about who holds the name. */
  onDue(now: number): void;
}
