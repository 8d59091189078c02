import { closeSync, openSync } from "node:fs";
import { isatty } from "node:tty";
import type { Mode } from "../core/capabilities.ts";
import { AcquireTimeoutError, DeadlockError, LeaseLostError } from "../core/errors.ts";
import { describeHolder, type Holder } from "../core/holder.ts";
import type { Lease } from "../core/lease.ts";
import type { LockManager } from "../core/lock-manager.ts";
import { createLockManager } from "../index.ts";
import { findSetpriv } from "../runtime/setpriv.ts";
import { systemClock } from "../runtime/system-clock.ts";
import { showAge } from "./age.ts";
import { checkExecutable } from "./executable.ts";
import { EXIT } from "./exit-codes.ts";
import type { Messages } from "./messages.ts";
import type { RunSettings } from "./run-settings.ts";
import { codeOfSignal, InterruptedError, Signals } from "./signals.ts";
import { connectStore } from "./store.ts";
import { type ChildEnd, supervise } from "./supervise.ts";
import { WaitingNotice } from "./waiting-notice.ts";

/** The grant ids of every `ringfence run` around this process, outermost first. */
const STACK = "RINGFENCE_STACK";

/** Takes the lock, runs the command, gives the lock back. Resolves to the exit code. */
export async function runUnderLock(
  settings: RunSettings,
  env: NodeJS.ProcessEnv,
  messages: Messages,
): Promise<number> {
  const signals = new Signals();
  checkExecutable(settings.command, env);
  const manager = createLockManager(await connectStore(settings.store, messages), {
    namespace: settings.namespace,
    ttl: settings.ttlMs,
    lockDelay: settings.lockDelayMs,
    holder: { label: settings.label },
    // One acquisition a process: nothing to detect, and every asynchronous step is cheaper.
    detectReentry: false,
  });
  const run = new Run(settings, env, messages, signals, manager);
  try {
    await refuseNesting(manager, settings.name, env);
    return await (settings.once === null ? run.withLease() : run.once(settings.once));
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    messages.note(`${error.message} while it waited for ${settings.name}`);
    return codeOfSignal(error.signal);
  } finally {
    signals.ignore();
    await manager.close();
  }
}

/**
 * A run inside a run on the same name would wait for itself for ever. The grant ids of the runs around this one are in
 * the environment: when one of them holds the name in *this* store, the wait has no end.
 */
async function refuseNesting(
  manager: LockManager,
  name: string,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const ancestors = ancestorsIn(env);
  if (ancestors.length === 0) return;
  const { held } = await manager.inspect(name);
  const own = held.find(({ grantId }) => ancestors.includes(grantId));
  if (own !== undefined)
    throw new DeadlockError(
      `${name} is held by a \`ringfence run\` around this one, ${describeHolder(own.holder)}: waiting for it would never end. Run the inner command without the lock, or give it another name`,
    );
}

function ancestorsIn(env: NodeJS.ProcessEnv): string[] {
  const all = [...(env[STACK] ?? "").split(","), env["RINGFENCE_GRANT_ID"] ?? ""];
  return [...new Set(all.filter((grantId) => grantId !== ""))];
}

/** One run: how it gets its lease, and what it does with it. */
class Run {
  readonly #settings: RunSettings;
  readonly #env: NodeJS.ProcessEnv;
  readonly #messages: Messages;
  readonly #signals: Signals;
  readonly #manager: LockManager;
  /** The loss was told when the child was. */
  #toldWhy = false;

  constructor(
    settings: RunSettings,
    env: NodeJS.ProcessEnv,
    messages: Messages,
    signals: Signals,
    manager: LockManager,
  ) {
    this.#settings = settings;
    this.#env = env;
    this.#messages = messages;
    this.#signals = signals;
    this.#manager = manager;
  }

  async withLease(): Promise<number> {
    const { name } = this.#settings;
    const startedMs = systemClock.mono();
    const notice = new WaitingNotice(this.#manager, name, this.#messages, systemClock);
    let lease: Lease | null;
    try {
      lease = await this.#acquire();
    } catch (error) {
      if (!(error instanceof AcquireTimeoutError)) throw error;
      return this.#busy(error.holder, systemClock.mono() - startedMs);
    } finally {
      notice.end();
    }
    if (lease === null) return this.#busy((await this.#manager.inspect(name)).holder, 0);
    this.#messages.detail(`acquired ${name} after ${showAge(systemClock.mono() - startedMs)}`);
    return this.#whileHeld(lease);
  }

  /** Runs unless somebody did within the time. */
  async once(terms: NonNullable<RunSettings["once"]>): Promise<number> {
    const { name, ttlMs, label } = this.#settings;
    let end: ChildEnd | undefined;
    try {
      const result = await this.#manager.once(
        name,
        {
          keep: terms.keepMs,
          retryOnError: terms.retryOnError,
          ttl: ttlMs,
          label,
          ...(terms.at === undefined ? {} : { at: terms.at }),
        },
        async (lease) => {
          end = await this.#child(lease);
          if (terms.retryOnError && (end.kind !== "ended" || end.code !== 0)) throw new FailedRun();
        },
      );
      if (!result.ran) return this.#busy(result.holder, 0, "ran already, or runs");
    } catch (error) {
      if (end === undefined) throw error;
      if (error instanceof LeaseLostError && end.kind === "ended")
        end = { ...end, lost: end.lost ?? error.message };
      // The child's end says more than the error that carries it.
      else if (!(error instanceof FailedRun)) this.#messages.note(String(error));
    }
    return end === undefined ? EXIT.internal : this.#codeOf(end);
  }

  async #acquire(): Promise<Lease | null> {
    const { name, mode, permits, waitMs } = this.#settings;
    const signal = this.#signals.stop;
    const wait = waitMs ?? ("forever" as const);
    if (mode === "permits") {
      const semaphore = this.#manager.semaphore(name, { permits });
      return waitMs === 0 ? semaphore.tryAcquire({ signal }) : semaphore.acquire({ signal, wait });
    }
    return waitMs === 0
      ? this.#manager.tryAcquire<Mode>(name, { mode, signal })
      : this.#manager.acquire<Mode>(name, { mode, signal, wait });
  }

  async #whileHeld(lease: Lease): Promise<number> {
    let end: ChildEnd;
    try {
      end = await this.#child(lease);
    } catch (error) {
      await lease.release();
      throw error;
    }
    const outcome = await lease.release();
    if (outcome === "unknown")
      this.#messages.note(
        `the release of ${lease.name} could not be confirmed; it is free after ${showAge(this.#settings.ttlMs)} at the latest`,
      );
    // Found gone although its deadline had not come: somebody else may have been in.
    if (outcome === "already-lost" && end.kind === "ended" && end.lost === null)
      end = { ...end, lost: `the lease on ${lease.name} was gone when it was to be released` };
    return this.#codeOf(end);
  }

  async #child(lease: Lease): Promise<ChildEnd> {
    const { command, args, foreground, maxHoldMs, watchFd, grace } = this.#settings;
    // The signal came when the grant was already on its way.
    if (this.#signals.first !== null) throw new InterruptedError(this.#signals.first);
    this.#messages.careful();
    return supervise(
      {
        command,
        args,
        env: childEnvironment(this.#env, lease),
        onTerminal: foreground || onTerminal(),
        setpriv: findSetpriv(),
        // Not the manager's limit: that one lets the lease lapse, while here the command's end can be waited for, and
        // then the lock be given back.
        maxHoldMs,
        watchFd,
      },
      lease,
      grace,
      {
        clock: systemClock,
        signals: this.#signals,
        onLost: (why) => {
          this.#toldWhy = true;
          this.#messages.error(`${why}: ending ${command}`);
        },
      },
    );
  }

  #codeOf(end: ChildEnd): number {
    if (end.kind === "not-started") {
      this.#messages.error(`${this.#settings.command}: ${end.error.message}`);
      return end.error.code === "ENOENT" ? EXIT.notFound : EXIT.cannotExecute;
    }
    if (end.lost !== null) {
      const how = end.signal === null ? `with code ${end.code ?? 0}` : `by ${end.signal}`;
      if (!this.#toldWhy) this.#messages.error(end.lost);
      this.#messages.note(`${this.#settings.command} ended ${how}`);
      return EXIT.lost;
    }
    return end.signal === null ? (end.code ?? 0) : codeOfSignal(end.signal);
  }

  #busy(holder: Holder | null, waitedMs: number, what = "is busy"): number {
    const { name, busyCode, waitMs } = this.#settings;
    const by = holder === null ? "" : `, held by ${describeHolder(holder)}`;
    const waited =
      waitMs === null || waitMs === 0
        ? ""
        : ` after ${showAge(waitedMs)} (--wait ${showAge(waitMs)})`;
    const text = `${name} ${what}${waited}${by}`;
    // `-E 0` says that a busy lock is fine: then cron has nothing to mail.
    if (busyCode === EXIT.done) this.#messages.detail(text);
    else this.#messages.error(text);
    return busyCode;
  }
}

/** The body of `once` failed in a way that its child's end tells. */
class FailedRun extends Error {
  override readonly name: string = "FailedRun";
}

/** The parent's environment, with this lease in place of an outer one. */
function childEnvironment(env: NodeJS.ProcessEnv, lease: Lease): NodeJS.ProcessEnv {
  const inherited = { ...env };
  // A permit has neither: it must not seem to have an outer lease's.
  delete inherited["RINGFENCE_TOKEN"];
  delete inherited["RINGFENCE_SEQUENCER"];
  const { token } = lease as { readonly token?: bigint | null };
  return {
    ...inherited,
    RINGFENCE_LOCK: lease.name,
    RINGFENCE_GRANT_ID: lease.grantId,
    ...(typeof token === "bigint"
      ? { RINGFENCE_TOKEN: token.toString(), RINGFENCE_SEQUENCER: lease.sequencer }
      : {}),
    [STACK]: [...ancestorsIn(env), lease.grantId].join(","),
  };
}

/** Whether one of our streams is the terminal that controls us: then the child stays in its process group. */
function onTerminal(): boolean {
  if (![0, 1, 2].some((fd) => isatty(fd))) return false;
  try {
    closeSync(openSync("/dev/tty", "r"));
    return true;
  } catch {
    // A terminal, but not ours: nobody signals our group, so a group of its own loses nothing.
    return false;
  }
}
