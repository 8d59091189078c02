import type { Clock, Timer } from "../core/clock.ts";
import { describeHolder } from "../core/holder.ts";
import type { LockInfo, LockManager } from "../core/lock-manager.ts";
import { showAge } from "./age.ts";
import type { Messages } from "./messages.ts";

/** Nobody wants to hear of a wait that is over at once. */
const FIRST_MS = 500;
/** One line that is written over again may be lively; lines that stay may not. */
const REWRITE_MS = 1000;
const LINES_MS = [10_000, 30_000];

/** Says on stderr who holds the lock while somebody waits for it. `end` stops it. */
export class WaitingNotice {
  readonly #manager: Pick<LockManager, "inspect">;
  readonly #name: string;
  readonly #messages: Messages;
  readonly #clock: Clock;
  readonly #sinceMs: number;
  #timer: Timer | undefined;
  #shown = 0;
  #ended = false;

  constructor(
    manager: Pick<LockManager, "inspect">,
    name: string,
    messages: Messages,
    clock: Clock,
  ) {
    this.#manager = manager;
    this.#name = name;
    this.#messages = messages;
    this.#clock = clock;
    this.#sinceMs = clock.mono();
    this.#arm(FIRST_MS);
  }

  end(): void {
    this.#ended = true;
    this.#timer?.cancel();
    this.#messages.clearStatus();
  }

  #arm(ms: number): void {
    this.#timer = this.#clock.timer(ms, () => {
      void this.#show();
    });
  }

  async #show(): Promise<void> {
    let text: string;
    try {
      text = describe(this.#name, await this.#manager.inspect(this.#name), this.#clock.wall());
    } catch (error) {
      // The wait itself decides what an outage means; here it is only what there is to say.
      text = `waiting for ${this.#name}: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (this.#ended) return;
    const waited = showAge(this.#clock.mono() - this.#sinceMs);
    this.#messages.status(this.#shown === 0 ? text : `${text}; waited ${waited}`);
    const pause = LINES_MS[Math.min(this.#shown, LINES_MS.length - 1)] ?? REWRITE_MS;
    this.#shown += 1;
    this.#arm(this.#messages.rewrites ? REWRITE_MS : pause);
  }
}

/** One line about what stands between a waiter and the lock. */
function describe(name: string, info: LockInfo, nowMs: number): string {
  const start = `waiting for ${name}`;
  const { holder } = info;
  if (holder === null)
    return info.lockDelayMs > 0
      ? `${start}: its holder vanished, lock-delay runs for ${showAge(info.lockDelayMs)} more`
      : start;
  const since = info.sinceMs === null ? "" : ` since ${showAge(nowMs - info.sinceMs)}`;
  const others = info.held.length > 1 ? ` and ${info.held.length - 1} more` : "";
  return `${start}, held by ${describeHolder(holder)}${others}${since}`;
}
