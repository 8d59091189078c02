import {
  AcquireTimeoutError,
  BackendConfigError,
  BackendError,
  DeadlockError,
  InvalidArgumentError,
  LeaseLostError,
  PermitMismatchError,
  UnsupportedError,
} from "../core/errors.ts";

/** Every exit code of the command's own. A child's code passes through unchanged. */
export const EXIT: {
  readonly done: 0;
  readonly nothing: 1;
  readonly usage: 64;
  readonly unavailable: 69;
  readonly internal: 70;
  readonly busy: 75;
  readonly config: 78;
  readonly lost: 79;
  readonly cannotExecute: 126;
  readonly notFound: 127;
} = {
  done: 0,
  nothing: 1,
  usage: 64,
  unavailable: 69,
  internal: 70,
  busy: 75,
  config: 78,
  lost: 79,
  cannotExecute: 126,
  notFound: 127,
};

/** The table as the manual shows it. */
export const EXIT_TABLE: readonly (readonly [code: string, meaning: string])[] = [
  ["0 … 255", "the command ran: its own exit code"],
  ["64", "wrong usage, or the lock is held by a ringfence run around this one"],
  ["69", "the store cannot be reached, or failed"],
  ["70", "a defect in ringfence"],
  ["75", "not acquired: busy, or --wait ran out (-E changes it)"],
  ["78", "wrong configuration: no store, no access, no driver for it"],
  ["79", "the lease was lost; the command was ended, or had ended too late to be sure"],
  ["126", "the command cannot be executed"],
  ["127", "the command was not found"],
  ["128 + n", "the command, or ringfence while it waited, was ended by signal n"],
];

/** The exit code for an error that ended the command. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof ExitError) return error.exitCode;
  if (error instanceof UnsupportedError || error instanceof PermitMismatchError) return EXIT.config;
  if (error instanceof InvalidArgumentError || error instanceof DeadlockError) return EXIT.usage;
  if (error instanceof AcquireTimeoutError) return EXIT.busy;
  if (error instanceof LeaseLostError) return EXIT.lost;
  if (error instanceof BackendConfigError) return EXIT.config;
  return error instanceof BackendError ? EXIT.unavailable : EXIT.internal;
}

/** Ends the command with this message and code. An empty message ends it silently. */
export class ExitError extends Error {
  override readonly name: string = "ExitError";
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
