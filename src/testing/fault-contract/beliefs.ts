import type { Ask, Granted } from "../../core/driver.ts";
import type { LockManager } from "../../core/lock-manager.ts";

interface Belief {
  readonly owner: string;
  readonly name: string;
  readonly grantId: string;
  /** On the host's monotonic clock. */
  deadlineMs: number;
  over: boolean;
}

/**
 * Who believes to hold what, and until when, told by the managers' own events; and what the backend granted meanwhile.
 * Two exclusive beliefs never overlap: a holder's deadline precedes the next grant. The tokens of a name rise.
 */
export class Beliefs {
  /** What went wrong, in sentences. */
  readonly violations: string[] = [];
  readonly #beliefs: Belief[] = [];
  readonly #granted = new Map<string, { readonly name: string; readonly atMs: number }>();
  readonly #tops = new Map<string, bigint>();

  /** Listens to one process. */
  follow(owner: string, locks: LockManager): void {
    locks.on("acquired", ({ name, mode, grantId, deadlineMs }) => {
      if (mode === "exclusive")
        this.#beliefs.push({ owner, name, grantId, deadlineMs, over: false });
    });
    locks.on("renewed", ({ grantId, deadlineMs }) => {
      for (const belief of this.#of(grantId)) belief.deadlineMs = deadlineMs;
    });
    locks.on("releasing", ({ grantId }) => {
      this.end(grantId);
    });
    locks.on("lost", ({ grantId }) => {
      this.end(grantId);
    });
  }

  /** A grant ends here without its holder's word, as when an operator revokes it. */
  end(grantId: string): void {
    for (const belief of this.#of(grantId)) belief.over = true;
  }

  /** All of a process's beliefs end: it is dead, or its session was killed. */
  endAll(owner: string): void {
    for (const belief of this.#beliefs) if (belief.owner === owner) belief.over = true;
  }

  /** The backend granted something just now. */
  granted(ask: Ask, { tokens }: Granted, atMs: number): void {
    if (ask.mode !== "exclusive" || this.#granted.has(ask.grantId)) return;
    this.#granted.set(ask.grantId, { name: ask.name, atMs });
    for (const belief of this.#beliefs) {
      if (belief.name !== ask.name || belief.grantId === ask.grantId || belief.over) continue;
      if (belief.deadlineMs > atMs)
        this.violations.push(
          `"${ask.name}" was granted ${Math.round(belief.deadlineMs - atMs)} ms before the deadline of ${belief.owner}`,
        );
    }
    if (tokens === null) return;
    const top = this.#tops.get(ask.name);
    if (top !== undefined && tokens.first <= top)
      this.violations.push(`"${ask.name}" was granted with token ${tokens.first} after ${top}`);
    this.#tops.set(ask.name, tokens.first + BigInt(tokens.count - 1));
  }

  /** When the backend granted this id; `undefined` when it did not. */
  grantedAt(grantId: string): number | undefined {
    return this.#granted.get(grantId)?.atMs;
  }

  /** How many different grants a name had. */
  grantsOf(name: string): number {
    return [...this.#granted.values()].filter((grant) => grant.name === name).length;
  }

  /** The last deadline that the holder of this grant believed in, on the host's monotonic clock. */
  deadlineOf(grantId: string): number {
    return Math.max(0, ...this.#of(grantId).map((belief) => belief.deadlineMs));
  }

  #of(grantId: string): Belief[] {
    return this.#beliefs.filter((belief) => belief.grantId === grantId);
  }
}
