import type { Answer, Ask } from "../../core/driver.ts";

/** How many leases that came out of a queue are known as such: a release of any other may take a message more. */
const FROM_QUEUE_MAX = 1000;

/** What a process knows of a grant id: it still queues, or it has a lease that came out of a queue. */
export type Place = "waits" | "came" | undefined;

/** Where the grant ids of this process stand, as far as it knows: advice for which statement to try first, no more. */
export class Places {
  /** Entries in the queues. */
  readonly #queued = new Set<string>();
  /** Those of them that were told to ask, and have not asked since. */
  readonly #woken = new Set<string>();
  /** Leases that came out of a queue: of the last ones, since a lost lease is never given back. */
  readonly #fromQueue = new Set<string>();

  /** All are told to ask again when wake-ups may have been lost. */
  get queued(): ReadonlySet<string> {
    return this.#queued;
  }

  /** An entry is told to ask. */
  wake(grantId: string): void {
    if (this.#queued.has(grantId)) this.#woken.add(grantId);
  }

  /** An entry asks: whether it was told to since it last did. */
  asks(grantId: string): boolean {
    return this.#woken.delete(grantId);
  }

  /** What an ask was answered. */
  answered({ grantId }: Ask, join: Ask["join"], answer: Answer): void {
    if (answer.kind === "busy" && answer.queued) {
      this.#queued.add(grantId);
      return;
    }
    this.#queued.delete(grantId);
    if (answer.kind !== "granted" || join !== "kept") return;
    this.#fromQueue.add(grantId);
    for (const oldest of this.#fromQueue) {
      if (this.#fromQueue.size <= FROM_QUEUE_MAX) break;
      this.#fromQueue.delete(oldest);
    }
  }

  /** Forgets a grant id that is given back, and tells what it was. */
  leave(grantId: string): Place {
    this.#woken.delete(grantId);
    if (this.#queued.delete(grantId)) return "waits";
    return this.#fromQueue.delete(grantId) ? "came" : undefined;
  }
}
