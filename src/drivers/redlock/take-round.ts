import type { DriverError } from "../../core/driver.ts";
import { type Ask } from "../../core/driver.ts";
import type { Outcome } from "../redis/client.ts";
import { asRedisError } from "../redis/errors.ts";
import type { Cause } from "./errors.ts";
import { noAnswer, type Panel } from "./panel.ts";
import { type TakeReply, takeReply } from "./replies.ts";
import {
  countVotes,
  type Failure,
  type Hold,
  newRound,
  type Round,
  type RoundInput,
  type RoundOutput,
  type RoundTerms,
  stepRound,
} from "./rounds.ts";
import { TAKE, UNDO, WRITE_BACK } from "./scripts.ts";

/** What one round is made from. */
export interface RoundParts {
  readonly panel: Panel;
  readonly ask: Ask;
  readonly terms: RoundTerms;
  /** The lease that it takes over from; '' for none. */
  readonly from: string;
  /** By when servers must have answered the take, then the write-back, and what undoes both. */
  readonly takeDueAt: number;
  readonly dueAt: number;
  readonly undoDueAt: number;
}

/** What a round came to. */
export type RoundEnd =
  | { readonly kind: "granted"; readonly token: bigint }
  | { readonly kind: "failed"; readonly why: Failure }
  /** Another round of the same grant id, or its release, took its place. */
  | { readonly kind: "superseded" };

/** A value that may still arrive at a server. */
export interface Stray {
  readonly server: number;
  readonly value: string;
}

/** How long a server refuses a round that was undone before it arrived: late packets are no later than that. */
const BURY_MS = 60_000;
/** How long a server that was silent has for the answer that nobody waits for. */
const BACKGROUND_MS = 1000;

/** Runs one round: sends what the reducer wants sent, and tells it what comes back. */
export class TakeRound {
  readonly #parts: RoundParts;
  readonly #replies: (TakeReply | undefined)[];
  readonly #errors: (DriverError | undefined)[];
  readonly #undoing: Promise<boolean>[] = [];
  #round: Round;
  #superseded = false;
  /** An exchange that too few servers answered is not undone: the old lease is gone there, and it may be asked again. */
  #undoes = true;
  #watch: { cancel(): void } | undefined;
  #end: ((end: RoundEnd) => void) | undefined;

  constructor(parts: RoundParts) {
    this.#parts = parts;
    this.#round = newRound(parts.terms);
    const { size } = parts.panel;
    this.#replies = new Array<undefined>(size).fill(undefined);
    this.#errors = new Array<undefined>(size).fill(undefined);
  }

  get value(): string {
    return this.#parts.terms.value;
  }

  /** What each server said to the take. */
  get replies(): readonly (TakeReply | undefined)[] {
    return this.#replies;
  }

  /** How many servers had the lock for us, at some time. */
  get taken(): number {
    return this.#replies.filter((reply) => reply?.kind === "took").length;
  }

  /** The tenures that this round found or made, by server. */
  get holds(): readonly (Hold | null)[] {
    return this.#round.votes.map((vote) => ("hold" in vote ? vote.hold : null));
  }

  get causes(): readonly Cause[] {
    return this.#errors.flatMap((error, server) =>
      error === undefined ? [] : [{ label: this.#parts.panel.label(server), error }],
    );
  }

  /** Nothing of it is under way any more. */
  get settled(): boolean {
    return this.#superseded || countVotes(this.#round, "asked", "writing") === 0;
  }

  /** Where its take may be, or may still arrive. */
  get strays(): readonly Stray[] {
    return this.#round.votes.flatMap((vote, server) => {
      const may = vote.kind === "asked" || (vote.kind === "silent" && vote.stray);
      return may ? [{ server, value: this.value }] : [];
    });
  }

  /** Resolves as soon as it is decided, and what must be undone is, where it can be. */
  async run(): Promise<RoundEnd> {
    const { panel, takeDueAt } = this.#parts;
    const ended = new Promise<RoundEnd>((resolve) => {
      this.#end = resolve;
    });
    this.#arm(takeDueAt);
    for (let server = 0; server < panel.size; server += 1) void this.#take(server);
    return await ended;
  }

  /** Whether everything that was undone is surely gone. */
  async undone(): Promise<boolean> {
    const done = await Promise.all(this.#undoing);
    return this.#undoes && done.every(Boolean) && this.strays.length === 0;
  }

  /** Its answers mean nothing any more, and nothing more is sent. */
  supersede(): void {
    this.#superseded = true;
    this.#watch?.cancel();
    this.#end?.({ kind: "superseded" });
  }

  #arm(dueAt: number): void {
    this.#watch?.cancel();
    this.#watch = this.#parts.panel.watch(dueAt, () => {
      this.#watch = undefined;
      for (const [server, vote] of this.#round.votes.entries()) {
        if (vote.kind !== "asked" && vote.kind !== "writing") continue;
        this.#errors[server] ??= noAnswer();
        this.#feed({ kind: "silent", server, stray: true, at: this.#now() });
      }
    });
  }

  #now(): number {
    return this.#parts.panel.clock.mono();
  }

  #feed(input: RoundInput): void {
    if (this.#superseded) return;
    const before = this.#round.phase;
    const { next, outputs } = stepRound(this.#round, input);
    this.#round = next;
    if (before === "taking" && next.phase === "writing") this.#arm(this.#parts.dueAt);
    const failure = outputs.find((output) => output.kind === "failed");
    if (failure?.why === "silent" && this.#parts.from !== "") this.#undoes = false;
    for (const output of outputs) this.#do(output);
    if (this.settled) {
      this.#watch?.cancel();
      this.#watch = undefined;
    }
  }

  #do(output: RoundOutput): void {
    switch (output.kind) {
      case "write-back":
        void this.#writeBack(output.server, output.hold, output.token);
        return;
      case "undo": {
        if (!this.#undoes) return;
        const undoing = this.#undo(output.server, output.value, output.stray);
        // Nobody waits for a server that is silent.
        if (!output.stray) this.#undoing.push(undoing);
        return;
      }
      case "granted":
        this.#end?.(output);
        return;
      case "failed":
        void Promise.all(this.#undoing).then(() => this.#end?.(output));
    }
  }

  async #take(server: number): Promise<void> {
    const { panel, ask, from, takeDueAt } = this.#parts;
    const keys = panel.keysOf(server, ask.name);
    const outcome = await this.#call(
      server,
      {
        statement: TAKE,
        keys: [
          keys.lock,
          keys.buried(ask.grantId),
          keys.buried(ask.grantId, this.value),
          keys.buried(from),
        ],
        args: [ask.grantId, this.value, ms(ask.ttlMs), ms(ask.lockDelayMs), ask.holder, from],
      },
      takeDueAt,
    );
    const at = this.#now();
    if (!outcome.ok) {
      const error = asRedisError(outcome.error);
      this.#errors[server] ??= error;
      this.#feed({ kind: "silent", server, stray: error.outcome === "unknown", at });
      return;
    }
    const reply = takeReply(outcome.value);
    this.#replies[server] = reply;
    if (reply.kind === "took") this.#feed({ kind: "took", server, hold: reply.hold, at });
    else this.#feed({ kind: "refused", server, at });
  }

  async #writeBack(server: number, hold: Hold, token: bigint): Promise<void> {
    const { panel, ask, terms, dueAt } = this.#parts;
    const { lock } = panel.keysOf(server, ask.name);
    const args = [
      ask.grantId,
      hold.value,
      String(hold.counter),
      String(token),
      String(terms.count),
    ];
    const outcome = await this.#call(server, { statement: WRITE_BACK, keys: [lock], args }, dueAt);
    const at = this.#now();
    if (outcome.ok) this.#feed({ kind: "wrote", server, matched: outcome.value === 1, at });
    else {
      this.#errors[server] ??= asRedisError(outcome.error);
      this.#feed({ kind: "silent", server, stray: true, at });
    }
  }

  async #undo(server: number, value: string, stray: boolean): Promise<boolean> {
    const { panel, ask, undoDueAt } = this.#parts;
    const dueAt = stray ? this.#now() + BACKGROUND_MS : undoDueAt;
    const [outcome] = await undoAt(panel, ask, { server, value }, stray ? BURY_MS : 0, dueAt);
    return outcome?.ok === true;
  }

  async #call(
    server: number,
    call: { statement: typeof TAKE; keys: readonly string[]; args: readonly string[] },
    dueAt: number,
  ): Promise<Outcome> {
    const [outcome] = await this.#parts.panel.ask(server, [call], dueAt);
    return outcome ?? { ok: false, error: noAnswer() };
  }
}

/** Ends a tenure of this value, and refuses it for so long. */
async function undoAt(
  panel: Panel,
  { name, grantId }: Pick<Ask, "name" | "grantId">,
  { server, value }: Stray,
  buryMs: number,
  dueAt: number,
): Promise<readonly Outcome[]> {
  const keys = panel.keysOf(server, name);
  return await panel.askWithin(
    server,
    [
      {
        statement: UNDO,
        keys: [keys.lock, keys.buried(grantId, value)],
        args: [grantId, value, ms(buryMs)],
      },
    ],
    dueAt,
  );
}

/** Buries what may still arrive, in the background. */
export function buryStrays(
  panel: Panel,
  ask: Pick<Ask, "name" | "grantId">,
  strays: readonly Stray[],
): void {
  const dueAt = panel.clock.mono() + BACKGROUND_MS;
  for (const stray of strays) void undoAt(panel, ask, stray, BURY_MS, dueAt);
}

/** Servers count whole milliseconds: rounded up, since the holder counts what it asked for. */
export function ms(duration: number): string {
  return String(Math.ceil(duration));
}
