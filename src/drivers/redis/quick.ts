import type { Ask, Granted, GrantRef } from "../../core/driver.ts";
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

/** A step that is waiting for its turn to end, or for its answer. */
interface Step<T> {
  readonly key: string;
  readonly args: readonly string[];
  readonly dueAt: number;
  readonly ttlMs: number;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/** The steps of one turn of the event loop. */
class Turn {
  readonly back: Step<boolean>[] = [];
  readonly taken: Step<Granted | undefined>[] = [];
  get size(): number {
    return this.back.length + this.taken.length;
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
  #turn: Turn | undefined;

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
  async take(ask: Ask, dueAt: number): Promise<Granted | undefined> {
    const { name, grantId, ttlMs, lockDelayMs, holder } = ask;
    const key = this.#keys.lock(name);
    const args = [`${grantId}|${whole(lockDelayMs)}|${whole(ttlMs)}|${holder}`];
    return await new Promise((resolve, reject) => {
      this.#thisTurn().taken.push({ key, args, dueAt, ttlMs, resolve, reject });
    });
  }

  /** Whether it was given back; if not, the long way finds out why. Rejects as a script does. */
  async giveBack({ name, grantId, ttlMs }: GrantRef, dueAt: number): Promise<boolean> {
    const key = this.#keys.lock(name);
    return await new Promise((resolve, reject) => {
      this.#thisTurn().back.push({ key, args: [grantId], dueAt, ttlMs, resolve, reject });
    });
  }

  #thisTurn(): Turn {
    let turn = this.#turn;
    if (turn === undefined || turn.size === this.#atOnce) {
      const begun = new Turn();
      turn = this.#turn = begun;
      this.#afterTurn(() => {
        if (this.#turn === begun) this.#turn = undefined;
        this.#send(begun);
      });
    }
    return turn;
  }

  #send({ back, taken }: Turn): void {
    if (back.length + taken.length > 1) {
      this.#sendAll(back, taken);
      return;
    }
    for (const step of back) this.#sendOne(GIVE_BACK, step, (reply) => reply === 1);
    for (const step of taken)
      this.#sendOne(TAKE, step, (reply) => takenOf(reply, step.ttlMs, this.#fenced));
  }

  #sendOne<T>(statement: Statement, step: Step<T>, read: (reply: unknown) => T): void {
    const { key, args, dueAt, resolve, reject } = step;
    this.#servers.run({ statement, keys: [key], args }, dueAt).then((reply) => {
      resolve(read(reply));
    }, reject);
  }

  #sendAll(back: readonly Step<boolean>[], taken: readonly Step<Granted | undefined>[]): void {
    const [args, keys] = [[String(back.length)], [] as string[]];
    let dueAt = Number.POSITIVE_INFINITY;
    for (const step of [...back, ...taken]) {
      if (step.dueAt < dueAt) dueAt = step.dueAt;
      keys.push(step.key);
      args.push(...step.args);
    }
    this.#servers.run({ statement: QUICK, keys, args }, dueAt).then(
      (reply) => {
        const cells = reply as readonly Cell[];
        let at = 1;
        for (const { resolve } of back) resolve(cells[at++] === 1);
        for (const { ttlMs, resolve } of taken)
          resolve(quicklyGranted(cells[0], cells[at++], ttlMs, this.#fenced));
      },
      (error: unknown) => {
        const others = refusedWhole(error);
        for (const { resolve, reject } of back)
          if (others) resolve(false);
          else reject(error);
        for (const { resolve, reject } of taken)
          if (others) resolve(undefined);
          else reject(error);
      },
    );
  }
}

/** The server counts whole milliseconds: rounded up, since the holder counts what it asked for. */
export function whole(ms: number): string {
  return String(Math.ceil(ms));
}
