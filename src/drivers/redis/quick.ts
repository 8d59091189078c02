import type { Ask, Granted, GrantRef } from "../../core/driver.ts";
import type { Asker } from "./connection.ts";
import { refusedWhole } from "./errors.ts";
import type { KeySpace } from "./keys.ts";
import { GIVE_BACK, QUICK, TAKE } from "./quick-scripts.ts";
import { type Cell, quicklyGranted, takenOf } from "./replies.ts";
import type { Statement } from "./scripts.ts";
import type { Servers } from "./servers.ts";

/**
 * The most steps in one script. With more, client and server wait for each other: with 64 callers a busy machine did half
 * as many steps a second by one script of 64 as by four of 16. Fewer cost more commands than they save waiting.
 */
const AT_ONCE = 16;
/** A counter lives a week and at least twice the longest ttl: this script needs to think of the week only. */
const LONGEST_MS = 3 * 86_400_000;
/** How many names are remembered that were not done quickly. */
const REMEMBERED = 1024;

/** Runs a function when the turn of the event loop is over, as far as this process asks anything in it. */
export type AfterTurn = (fn: () => void) => void;

export const afterTurn: AfterTurn = (fn) => {
  process.nextTick(fn);
};

/** A step that waits for its turn of the event loop to end, and then for its answer. Alone it asks for itself. */
interface Step extends Asker {
  readonly statement: Statement;
  readonly key: string;
  readonly arg: string;
  /** What `quick` said of it, and the token of what it granted. */
  told(cell: Cell | undefined, token: Cell | undefined): void;
  /** It was not done, and takes the long way. */
  undone(): void;
}

class Taking implements Step {
  readonly statement = TAKE;
  readonly key: string;
  readonly arg: string;
  readonly dueAt: number;
  readonly failed: (error: unknown) => void;
  readonly #ttlMs: number;
  readonly #fenced: boolean;
  readonly #resolve: (granted: Granted | undefined) => void;

  constructor(
    { key, ask, dueAt, fenced }: { key: string; ask: Ask; dueAt: number; fenced: boolean },
    resolve: (granted: Granted | undefined) => void,
    failed: (error: unknown) => void,
  ) {
    const { grantId, ttlMs, lockDelayMs, holder } = ask;
    this.key = key;
    this.arg = `${grantId}|${whole(lockDelayMs)}|${whole(ttlMs)}|${holder}`;
    this.dueAt = dueAt;
    this.#ttlMs = ttlMs;
    this.#fenced = fenced;
    this.#resolve = resolve;
    this.failed = failed;
  }

  answered(reply: unknown): void {
    this.#resolve(takenOf(reply, this.#ttlMs, this.#fenced));
  }

  told(before: Cell | undefined, token: Cell | undefined): void {
    this.#resolve(quicklyGranted(token, before, this.#ttlMs, this.#fenced));
  }

  undone(): void {
    this.#resolve(undefined);
  }
}

class GivingBack implements Step {
  readonly statement = GIVE_BACK;
  readonly key: string;
  readonly arg: string;
  readonly dueAt: number;
  readonly failed: (error: unknown) => void;
  readonly #resolve: (done: boolean) => void;

  constructor(
    { key, grantId, dueAt }: { key: string; grantId: string; dueAt: number },
    resolve: (done: boolean) => void,
    failed: (error: unknown) => void,
  ) {
    this.key = key;
    this.arg = grantId;
    this.dueAt = dueAt;
    this.#resolve = resolve;
    this.failed = failed;
  }

  answered(reply: unknown): void {
    this.#resolve(reply === 1);
  }

  told(cell: Cell | undefined): void {
    this.#resolve(cell === 1);
  }

  undone(): void {
    this.#resolve(false);
  }
}

/**
 * The usual case: an exclusive lease of a name that nobody else wants is taken and given back. What is asked in one turn
 * of the event loop leaves as one script: most of the cost of a step is the library's, the link's and the server's for
 * a command, whatever it does. A step that is not done here has changed nothing, and takes the long way.
 */
export class Quick {
  readonly #servers: Servers;
  readonly #keys: KeySpace;
  readonly #atOnce: number;
  readonly #fenced: boolean;
  readonly #afterTurn: AfterTurn;
  /** Names where it was of no use: somebody else wants them too. Forgotten when there are many. */
  readonly #wanted = new Set<string>();
  #turn: Step[] = [];

  constructor(
    servers: Servers,
    keys: KeySpace,
    facts: { readonly cluster: boolean; readonly fenced: boolean; readonly afterTurn: AfterTurn },
  ) {
    this.#servers = servers;
    this.#keys = keys;
    // The keys of one script are of one slot.
    this.#atOnce = facts.cluster ? 1 : AT_ONCE;
    this.#fenced = facts.fenced;
    this.#afterTurn = facts.afterTurn;
  }

  /** Nothing can be done quickly at this name for now. */
  avoid(name: string): void {
    if (this.#wanted.size >= REMEMBERED) this.#wanted.clear();
    this.#wanted.add(name);
  }

  /** The long way found nothing at this name that is in the way. */
  retry(name: string): void {
    this.#wanted.delete(name);
  }

  takes({ name, mode, ttlMs, lockDelayMs, tokens, join, above }: Ask): boolean {
    const plain = mode === "exclusive" && tokens === 1 && join !== "kept" && above === undefined;
    return plain && ttlMs + lockDelayMs <= LONGEST_MS && !this.#wanted.has(name);
  }

  givesBack({ name, mode, refuseLateMs, raiseTo }: GrantRef): boolean {
    const plain = mode === "exclusive" && refuseLateMs === undefined && raiseTo === undefined;
    return plain && !this.#wanted.has(name);
  }

  /** The grant; `undefined` where it takes the long way to find out. Rejects as a script does. */
  take(ask: Ask, dueAt: number): PromiseLike<Granted | undefined> {
    const facts = { key: this.#keys.lock(ask.name), ask, dueAt, fenced: this.#fenced };
    return new Promise((resolve, failed) => {
      this.#add(new Taking(facts, resolve, failed));
    });
  }

  /** Whether it was given back; if not, the long way finds out why. Rejects as a script does. */
  giveBack({ name, grantId }: GrantRef, dueAt: number): PromiseLike<boolean> {
    const facts = { key: this.#keys.lock(name), grantId, dueAt };
    return new Promise((resolve, failed) => {
      this.#add(new GivingBack(facts, resolve, failed));
    });
  }

  /** As Nagle's algorithm (RFC 896) does: what finds nothing under way goes at once, what comes meanwhile is gathered. */
  #add(step: Step): void {
    if (this.#turn.length === 0 && this.#servers.idle) this.#sendOne(step);
    else {
      this.#turn.push(step);
      if (this.#turn.length === 1) this.#afterTurn(this.#send);
    }
  }

  readonly #send = (): void => {
    const steps = this.#turn;
    this.#turn = [];
    const [only] = steps;
    if (steps.length === 1 && only !== undefined) this.#sendOne(only);
    else if (this.#atOnce === 1) for (const step of steps) this.#sendOne(step);
    else
      for (let at = 0; at < steps.length; at += this.#atOnce)
        this.#sendAll(steps.slice(at, at + this.#atOnce));
  };

  #sendOne(step: Step): void {
    const { statement, key, arg } = step;
    this.#servers.ask({ statement, keys: [key], args: [arg] }, step, true);
  }

  #sendAll(steps: readonly Step[]): void {
    const back = steps.filter(({ statement }) => statement === GIVE_BACK);
    const taken = steps.filter(({ statement }) => statement === TAKE);
    const [args, keys] = [[String(back.length)], [] as string[]];
    const inOrder = [...back, ...taken];
    let dueAt = Number.POSITIVE_INFINITY;
    for (const step of inOrder) {
      if (step.dueAt < dueAt) dueAt = step.dueAt;
      keys.push(step.key);
      args.push(step.arg);
    }
    const answered = (reply: unknown): void => {
      const [token, ...cells] = reply as readonly Cell[];
      for (const [i, step] of inOrder.entries()) step.told(cells[i], token);
    };
    const failed = (error: unknown): void => {
      const others = refusedWhole(error);
      for (const step of inOrder)
        if (others) step.undone();
        else step.failed(error);
    };
    this.#servers.ask({ statement: QUICK, keys, args }, { dueAt, answered, failed }, true);
  }
}

/** The server counts whole milliseconds: rounded up, since the holder counts what it asked for. */
export function whole(ms: number): string {
  return String(Math.ceil(ms));
}
