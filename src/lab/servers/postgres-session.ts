import { Access } from "./postgres-access.ts";
import { type Engine, ServerComplaint, type Transaction, type Wait } from "./postgres-engine.ts";
import type { Asked } from "./postgres-script.ts";
import { inUnits, type Model } from "./postgres-values.ts";

/** How long a statement waits for a row before the server looks whether the waits go in a circle, in milliseconds. */
const DEADLOCK_MS = 1000;

/** What a session was answered. */
export type Reply = { readonly rows: readonly string[] } | { readonly error: ServerComplaint };

/** One statement under way, or one message of several. */
interface Work {
  readonly steps: Generator<Wait, readonly string[]>;
  readonly answer: (reply: Reply) => void;
  wait: Wait | undefined;
  timers: readonly { cancel(): void }[];
}

/**
 * One session at the server: a message at a time, each statement in a transaction of its own unless one is open. What
 * fails rolls back; inside a block nothing more is taken then but its end.
 */
export class Session {
  readonly pid: number;
  readonly #engine: Engine;
  readonly #model: Readonly<Record<string, Model>>;
  readonly #onEnd: (complaint: ServerComplaint | null) => void;
  #block: Transaction | null = null;
  #failed = false;
  #open = true;
  #lockTimeoutMs = 0;
  #idleTimeoutMs = 0;
  #work: Work | null = null;
  #idleTimer: { cancel(): void } | undefined;
  /** The one who asks is gone: what is under way is still done, then it ends. */
  #forsaken = false;

  constructor(
    engine: Engine,
    pid: number,
    model: Readonly<Record<string, Model>>,
    onEnd: (complaint: ServerComplaint | null) => void = () => undefined,
  ) {
    this.#engine = engine;
    this.pid = pid;
    this.#model = model;
    this.#onEnd = onEnd;
  }

  get open(): boolean {
    return this.#open;
  }

  /** Whether a transaction block is open: a pooler keeps the session for whoever began it. */
  get inBlock(): boolean {
    return this.#block !== null;
  }

  /** Whether a statement is under way that waits. */
  get waits(): boolean {
    return this.#work !== null;
  }

  /** One message: its statements in turn, in one transaction but for what they say themselves. */
  send(asked: readonly Asked[], answer: (reply: Reply) => void): void {
    if (!this.#open) return;
    if (this.#work !== null) throw new Error("a session has one message at a time");
    this.#idleTimer?.cancel();
    this.#work = { steps: this.#message(asked), answer, wait: undefined, timers: [] };
    this.#engine.looking += 1;
    this.#go(this.#work, () => this.#work?.steps.next());
  }

  /** The client is gone. */
  forsake(): void {
    this.#forsaken = true;
    if (this.#work === null) this.end(null);
  }

  /** Ends it, as `pg_terminate_backend` does: what is not committed never was. */
  end(complaint: ServerComplaint | null): void {
    if (!this.#open) return;
    this.#open = false;
    const work = this.#work;
    if (work !== null) this.#settle(work);
    this.#idleTimer?.cancel();
    if (this.#block !== null) this.#engine.rollback(this.#block);
    this.#block = null;
    if (this.#implicit !== null) this.#engine.rollback(this.#implicit);
    this.#implicit = null;
    this.#engine.advisory.drop(this);
    this.#onEnd(complaint);
  }

  /** The transaction of a message that opened no block. */
  #implicit: Transaction | null = null;

  *#message(asked: readonly Asked[]): Generator<Wait, readonly string[]> {
    const rows: string[] = [];
    for (const each of asked) rows.push(...(yield* this.#statement(each)));
    if (this.#implicit !== null) this.#engine.commit(this.#implicit);
    this.#implicit = null;
    return rows;
  }

  *#statement({ name, args }: Asked): Generator<Wait, readonly string[]> {
    if (this.#failed && name !== "rollback" && name !== "commit")
      throw new ServerComplaint("25P02", "current transaction is aborted");
    switch (name) {
      case "begin":
        new Access(this.#engine, this.#begin(Number(args[0]), 2000)).raiseSync();
        return [inUnits(Number(args[0]))];
      case "plainBegin":
      case "oldBegin":
        this.#begin().repeatable = name === "oldBegin";
        return [];
      case "guardBegin":
        this.#begin(Number(args[0]), Number(args[1]));
        return [];
      case "commit":
        this.#close(this.#failed ? "rollback" : "commit");
        return [];
      case "rollback":
        this.#close("rollback");
        return [];
      case "greeting":
        return [this.#greeting(args[0] ?? "")];
      case "schema":
        return ["t|t"];
      case "format":
        return ["1"];
      default: {
        const model = this.#model[name];
        if (model === undefined) throw new RangeError(`no model of the statement ${name}`);
        const tx = this.#transaction();
        return yield* model(new Access(this.#engine, tx), args);
      }
    }
  }

  #transaction(): Transaction {
    if (this.#block !== null) return this.#block;
    this.#implicit ??= this.#engine.begin(this, this.#lockTimeoutMs);
    return this.#implicit;
  }

  #begin(lockTimeoutMs = 0, idleTimeoutMs = 0): Transaction {
    // What the message did before it is part of the block.
    const block = this.#transaction();
    this.#block = block;
    this.#implicit = null;
    Object.assign(block, { lockTimeoutMs, idleTimeoutMs });
    return block;
  }

  #close(how: "commit" | "rollback"): void {
    const tx = this.#block ?? this.#implicit;
    this.#block = null;
    this.#implicit = null;
    this.#failed = false;
    if (tx !== null) this.#engine[how](tx);
  }

  /** Its settings are for the session where it is the server's own, for the transaction where it is a pooler's. */
  #greeting(settings: string): string {
    for (const [, name, value, local = ""] of settings.matchAll(SETTING)) {
      const [, pid] = /<> (\d+)/.exec(local) ?? [];
      if (local !== "false" && Number(pid) !== this.pid) continue;
      if (name === "lock_timeout") this.#lockTimeoutMs = Number(value);
      if (name === "idle_in_transaction_session_timeout") this.#idleTimeoutMs = Number(value);
    }
    return `${this.pid}|`;
  }

  /** Runs up to where it waits, or to its end. */
  #go(work: Work, next: () => IteratorResult<Wait, readonly string[]> | undefined): void {
    let reply: Reply;
    try {
      const step = next();
      if (step === undefined) return;
      if (step.done !== true) {
        this.#wait(work, step.value);
        return;
      }
      reply = { rows: step.value };
    } catch (error) {
      if (!(error instanceof ServerComplaint)) throw error;
      if (this.#implicit !== null) this.#engine.rollback(this.#implicit);
      this.#implicit = null;
      // Its locks are free at once; whoever began the block still has to end it.
      if (this.#block !== null) this.#fail(this.#block);
      reply = { error };
    }
    this.#settle(work);
    this.#idle();
    work.answer(reply);
    if (this.#forsaken) this.end(null);
  }

  #fail(block: Transaction): void {
    this.#failed = true;
    this.#engine.rollback(block);
  }

  #wait(work: Work, wait: Wait): void {
    const { tx } = wait;
    const fails = (code: string, message: string): void => {
      this.#engine.forget(wait);
      this.#stop(work);
      this.#go(work, () => work.steps.throw(new ServerComplaint(code, message)));
    };
    work.wait = wait;
    wait.wake = () => {
      this.#stop(work);
      this.#go(work, () => work.steps.next());
    };
    const { host } = this.#engine;
    const circle = host.timer(DEADLOCK_MS, () => {
      if (this.#engine.inCircle(tx)) fails("40P01", "deadlock detected");
    });
    const { lockTimeoutMs } = tx;
    const late = (): void => {
      fails("55P03", "canceling statement due to lock timeout");
    };
    work.timers = lockTimeoutMs > 0 ? [circle, host.timer(lockTimeoutMs, late)] : [circle];
    this.#engine.wait(wait);
  }

  #stop(work: Work): void {
    for (const timer of work.timers) timer.cancel();
    work.timers = [];
    work.wait = undefined;
  }

  #settle(work: Work): void {
    const { wait } = work;
    this.#stop(work);
    this.#work = null;
    this.#engine.looking -= 1;
    if (wait !== undefined) this.#engine.forget(wait);
  }

  #idle(): void {
    const ms = this.#block?.idleTimeoutMs ?? 0;
    const timeoutMs = ms > 0 ? ms : this.#idleTimeoutMs;
    if (this.#block === null || timeoutMs === 0) return;
    this.#idleTimer = this.#engine.host.timer(timeoutMs, () => {
      const message = "terminating connection due to idle-in-transaction timeout";
      this.end(new ServerComplaint("25P03", message, "FATAL"));
    });
  }
}

const SETTING = /set_config\('(\w+)', '([^']*)', (true|false|pg_backend_pid\(\) <> \d+)\)/g;
