/**
 * One child under a lease. The wrapper's own deadline decides, not the store's answer: the child is told to end early
 * enough that TERM, the grace and KILL all come before anybody else may enter. A wrapper that was stopped finds its
 * deadline past at its first step, ends its child, and never reports success.
 */
import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import type { Clock, Timer } from "../core/clock.ts";
import { LeaseLostError } from "../core/errors.ts";
import type { LeaseState } from "../core/lease-state.ts";
import type { Grace } from "./grace.ts";
import { groupRuns, killTree } from "./process-tree.ts";
import type { ForwardedSignal, Signals } from "./signals.ts";

/** What supervision needs to know of a lease. */
export interface WatchedLease {
  readonly state: LeaseState;
  readonly signal: AbortSignal;
  remainingMs(): number;
}

/** How to start the child. */
export interface ChildPlan {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** In the terminal's own process group: the terminal has signalled it, and it can read from the terminal. */
  readonly onTerminal: boolean;
  /** `setpriv`, where the kernel can be asked to end the child with us. */
  readonly setpriv: string | null;
  /** The child is told to end after so long. */
  readonly maxHoldMs: number | undefined;
  /** The descriptor that closes in the child when this process is gone. */
  readonly watchFd: number | undefined;
}

/** What supervision is lent. */
export interface Surroundings {
  readonly clock: Clock;
  readonly signals: Pick<Signals, "handTo" | "ignore">;
  /** Called once, right after the child was told to end. */
  readonly onLost: (why: string) => void;
}

/** How the child ended. */
export type ChildEnd =
  | {
      readonly kind: "ended";
      readonly code: number | null;
      readonly signal: NodeJS.Signals | null;
      /** Why the lease does not cover the child's whole life; `null` when it does. */
      readonly lost: string | null;
    }
  | { readonly kind: "not-started"; readonly error: NodeJS.ErrnoException };

/** A terminal has sent these to the whole group already. */
const FROM_TERMINAL: readonly string[] = ["SIGINT", "SIGQUIT"];
/** How often an ended child's group is asked whether somebody is left. */
const SWEEP_MS = 20;
/** A killed group is waited for so long: a process that hangs in the kernel cannot be ended. */
const KILLED_MS = 1000;

/** Starts the child and waits for its end. Never rejects. */
export async function supervise(
  plan: ChildPlan,
  lease: WatchedLease,
  grace: Grace,
  around: Surroundings,
): Promise<ChildEnd> {
  const child = start(plan);
  const ended = new Promise<Omit<ChildEnd & { kind: "ended" }, "lost"> | { error: Error }>(
    (resolve) => {
      child.once("exit", (code, signal) => {
        resolve({ kind: "ended", code, signal });
      });
      child.once("error", (error) => {
        if (child.pid === undefined) resolve({ error });
      });
    },
  );
  if (child.pid === undefined) {
    const failed = await ended;
    return { kind: "not-started", error: (failed as { error: Error }).error };
  }
  const watch = new Watch(child.pid, plan, lease, grace, around);
  const end = await ended;
  const lost = await watch.finish();
  return "error" in end ? { kind: "not-started", error: end.error } : { ...end, lost };
}

function start(plan: ChildPlan): ChildProcess {
  const [file, args] =
    plan.setpriv === null
      ? [plan.command, plan.args]
      : [plan.setpriv, ["--pdeathsig", "KILL", "--", plan.command, ...plan.args]];
  const stdio: StdioOptions = ["inherit", "inherit", "inherit"];
  if (plan.watchFd !== undefined) {
    while (stdio.length < plan.watchFd) stdio.push("ignore");
    stdio.push("pipe");
  }
  const child = spawn(file, args, { stdio, env: plan.env, detached: !plan.onTerminal });
  const watched = plan.watchFd === undefined ? null : child.stdio[plan.watchFd];
  // The child may write to it or close it: neither is of interest.
  watched?.on("error", () => undefined);
  if (watched !== null && watched !== undefined && "unref" in watched)
    (watched as { unref(): void }).unref();
  return child;
}

/** From the child's start to its end: the deadline, and the signals. */
class Watch {
  readonly #pid: number;
  readonly #onTerminal: boolean;
  readonly #lease: WatchedLease;
  readonly #grace: Grace;
  readonly #around: Surroundings;
  readonly #signal: AbortSignal;
  /** On the monotonic clock: the child's own end, however well its lease is renewed. */
  readonly #maxHoldAt: number;
  #timer: Timer | undefined;
  #lost: string | null = null;
  /** On the monotonic clock: when the child is killed. */
  #killAt = Infinity;
  #ended = false;

  constructor(
    pid: number,
    plan: ChildPlan,
    lease: WatchedLease,
    grace: Grace,
    around: Surroundings,
  ) {
    this.#pid = pid;
    this.#onTerminal = plan.onTerminal;
    this.#lease = lease;
    this.#grace = grace;
    this.#around = around;
    this.#maxHoldAt = around.clock.mono() + (plan.maxHoldMs ?? Infinity);
    around.signals.handTo(this.#forward, this.#check);
    this.#signal = lease.signal;
    this.#signal.addEventListener("abort", this.#check);
    this.#check();
  }

  /** The child has ended. Says why the lease was lost, if it was, after everything that the child left is gone too. */
  async finish(): Promise<string | null> {
    this.#ended = true;
    // It may have ended while this process was stopped: nobody can tell whether in time.
    this.#lost ??= this.#reason(0);
    this.#timer?.cancel();
    this.#signal.removeEventListener("abort", this.#check);
    this.#around.signals.ignore();
    if (this.#lost !== null && !this.#onTerminal) await this.#sweep();
    return this.#lost;
  }

  readonly #forward = (signal: ForwardedSignal): void => {
    if (this.#onTerminal) {
      if (!FROM_TERMINAL.includes(signal)) send(this.#pid, signal);
    } else send(-this.#pid, signal);
  };

  readonly #check = (): void => {
    if (this.#ended || this.#lost !== null) return;
    this.#timer?.cancel();
    const reason = this.#reason(this.#grace.leadMs);
    if (reason !== null) this.#end(reason);
    else {
      const untilDeadline = this.#lease.remainingMs() - this.#grace.leadMs;
      this.#arm(Math.min(untilDeadline, this.#maxHoldAt - this.#around.clock.mono()), this.#check);
    }
  };

  /** Why the lease no longer covers the next `leadMs`; `null` while it does. */
  #reason(leadMs: number): string | null {
    if (this.#lease.state === "lost") {
      const reason: unknown = this.#lease.signal.reason;
      return reason instanceof LeaseLostError ? reason.message : "the lease was lost";
    }
    if (this.#around.clock.mono() >= this.#maxHoldAt)
      return "the command has run as long as --max-hold allows";
    return this.#lease.remainingMs() > leadMs ? null : "the lease could not be renewed in time";
  }

  #end(reason: string): void {
    this.#lost = reason;
    this.#killAt = this.#around.clock.mono() + this.#grace.graceMs;
    this.#tell("SIGTERM");
    // A stopped child acts on TERM only when it goes on.
    this.#tell("SIGCONT");
    this.#arm(this.#grace.graceMs, () => {
      this.#tell("SIGKILL");
    });
    this.#around.onLost(reason);
  }

  /** To everything that the child has started, as far as it can be told. */
  #tell(signal: NodeJS.Signals): void {
    if (this.#onTerminal) killTree(this.#pid, signal);
    else send(-this.#pid, signal);
  }

  /** What the child left in its group gets the rest of the grace, then KILL. */
  async #sweep(): Promise<void> {
    const { clock } = this.#around;
    while (groupRuns(this.#pid)) {
      const now = clock.mono();
      if (now >= this.#killAt) send(-this.#pid, "SIGKILL");
      if (now >= this.#killAt + KILLED_MS) return;
      await new Promise<void>((resolve) => {
        clock.timer(SWEEP_MS, resolve, true);
      });
    }
  }

  #arm(ms: number, fn: () => void): void {
    this.#timer = this.#around.clock.timer(Math.max(0, ms), fn, true);
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone, or another user's by now: either way not ours to end.
  }
}
