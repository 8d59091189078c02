import { constants } from "node:os";

/** What ends a wait, and goes on to a child. */
const FORWARDED = ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const;
/** A job uses them as it likes; one that waits for a lock has no use for them. */
const HARMLESS: readonly string[] = ["SIGUSR1", "SIGUSR2"];

export type ForwardedSignal = (typeof FORWARDED)[number];

/**
 * The signals of the whole command, caught from its first step to its last: a signal between the grant and the start of
 * the child is as good as one during the wait, and one during the release must not stop it.
 */
export class Signals {
  readonly #stop = new AbortController();
  #first: ForwardedSignal | null = null;
  #receiver: ((signal: ForwardedSignal) => void) | null = null;
  #onContinue: (() => void) | null = null;

  constructor() {
    for (const signal of FORWARDED)
      process.on(signal, () => {
        this.#receive(signal);
      });
    process.on("SIGCONT", () => {
      this.#onContinue?.();
    });
  }

  /** Aborts at the first signal that came before there was a child. */
  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  /** The signal that ended the wait. */
  get first(): ForwardedSignal | null {
    return this.#first;
  }

  /** From now on signals go to `receiver`; `onContinue` is called when this process was stopped and goes on. */
  handTo(receiver: (signal: ForwardedSignal) => void, onContinue: () => void): void {
    this.#receiver = receiver;
    this.#onContinue = onContinue;
  }

  /** There is no child any more: signals change nothing until the lock is given back. */
  ignore(): void {
    this.handTo(
      () => undefined,
      () => undefined,
    );
  }

  #receive(signal: ForwardedSignal): void {
    if (this.#receiver !== null) {
      this.#receiver(signal);
      return;
    }
    if (HARMLESS.includes(signal)) return;
    this.#first ??= signal;
    this.#stop.abort(new InterruptedError(signal));
  }
}

/** A signal came while the command waited. */
export class InterruptedError extends Error {
  override readonly name: string = "InterruptedError";
  readonly signal: ForwardedSignal;
  constructor(signal: ForwardedSignal) {
    super(`ended by ${signal}`);
    this.signal = signal;
  }
}

/** The exit code of a process that a signal ended, as shells give it. */
export function codeOfSignal(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}
