import type { Clock } from "../../core/clock.ts";
import type { Ask, Granted } from "../../core/driver.ts";
import type { Hold } from "./rounds.ts";
import type { Stray, TakeRound } from "./take-round.ts";

/** So many grants are kept before the dead ones are looked for. */
const LOOK_FROM = 256;

/** What one backend remembers of one grant id. */
export interface Grant {
  ask: Ask;
  /** The last round of it, until nothing of it is under way. */
  round: TakeRound | undefined;
  /** What was answered when it was granted: a repeated ask is the same grant. */
  granted: Granted | undefined;
  /** The tenures that its extensions must find; taken from the round at the first one. */
  holds: readonly (Hold | null)[] | undefined;
  /** What earlier rounds sent and nobody heard of. */
  strays: readonly Stray[];
  /** `clock.mono()` by when the servers have forgotten it. */
  until: number;
}

/** The grants of one backend. One that was never given back goes when the servers have forgotten it. */
export class Grants {
  readonly #clock: Clock;
  readonly #byId = new Map<string, Grant>();
  #lookAt = LOOK_FROM;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(name: string, grantId: string): Grant | undefined {
    return this.#byId.get(`${grantId} ${name}`);
  }

  add(ask: Ask): Grant {
    this.#sweep();
    const grant: Grant = {
      ask,
      round: undefined,
      granted: undefined,
      holds: undefined,
      strays: [],
      until: this.#clock.mono() + ask.ttlMs + ask.lockDelayMs,
    };
    this.#byId.set(`${ask.grantId} ${ask.name}`, grant);
    return grant;
  }

  delete(name: string, grantId: string): void {
    this.#byId.delete(`${grantId} ${name}`);
  }

  /** All of them, for closing. */
  all(): IterableIterator<Grant> {
    return this.#byId.values();
  }

  #sweep(): void {
    if (this.#byId.size < this.#lookAt) return;
    const now = this.#clock.mono();
    for (const [key, { until }] of this.#byId) if (until < now) this.#byId.delete(key);
    this.#lookAt = Math.max(LOOK_FROM, 2 * this.#byId.size);
  }
}

/** Where something of a grant may still arrive. */
export function straysOf(grant: Grant): readonly Stray[] {
  return [...grant.strays, ...(grant.round?.strays ?? [])];
}

/** The tenures that an extension must find. */
export function holdsOf(grant: Grant): readonly (Hold | null)[] | undefined {
  return grant.holds ?? grant.round?.holds;
}
