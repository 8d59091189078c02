import type { Requirements } from "./capabilities.ts";
import { unmet } from "./capabilities.ts";
import type { Clock } from "./clock.ts";
import {
  type Backend,
  type Driver,
  type DriverContext,
  DriverError,
  type Finding,
  type Io,
} from "./driver.ts";
import { type Due, DueQueue } from "./due-queue.ts";
import {
  BackendConfigError,
  BackendError,
  BackendTimeoutError,
  BackendUnavailableError,
  QuorumError,
} from "./errors.ts";

/** How long opening and probing a backend may take. */
const OPEN_MS = 10_000;

/** One call's limits; the signal is made only for a driver that reads it. */
class CallIo implements Io, Due {
  dueAt = -1;
  readonly timeoutMs: number;
  /** Called when nobody waits for an answer any more. */
  readonly expire: (io: CallIo, why: string) => void;
  #controller: AbortController | undefined;
  over = false;

  constructor(timeoutMs: number, expire: (io: CallIo, why: string) => void) {
    this.timeoutMs = timeoutMs;
    this.expire = expire;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.over) this.#controller.abort();
    return this.#controller.signal;
  }

  end(): void {
    this.over = true;
    this.#controller?.abort();
  }
}

/** A driver's error, whatever copy of the package made it; anything else is the driver's own fault. */
export function asDriverError(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  if (
    error instanceof Error &&
    error.name === "DriverError" &&
    "kind" in error &&
    "outcome" in error
  )
    return error as DriverError;
  return new DriverError("config", "unknown", "the driver failed in an unexpected way", {
    cause: error,
  });
}

/** What a caller of the library sees of a driver's error. */
export function asBackendError(error: unknown, operation: string): BackendError {
  if (error instanceof BackendError) return error;
  const { kind, outcome, message, votes, cause } = asDriverError(error);
  const facts = { operation, outcome, cause: cause ?? error };
  const sentence = `${operation} failed: ${message}`;
  switch (kind) {
    case "timeout":
      return new BackendTimeoutError(sentence, facts);
    case "config":
      return new BackendConfigError(sentence, facts);
    case "quorum":
      return new QuorumError(sentence, facts, votes ?? { got: 0, needed: 0, causes: [] });
    case "unavailable":
    case "busy":
      return new BackendUnavailableError(sentence, facts);
  }
}

/** An acquire that finds the backend out of reach says so, whether nothing answered or everything was refused. */
export function asAcquireError(error: unknown): BackendError {
  const { kind, outcome, message } = asDriverError(error);
  if (kind !== "timeout") return asBackendError(error, "acquire");
  return new BackendUnavailableError(`acquire failed: ${message}`, {
    operation: "acquire",
    outcome,
    cause: error,
  });
}

/** The connection to one backend: opened at the first use, and every call bounded in time. */
export class Link {
  readonly #driver: Driver;
  readonly #context: DriverContext;
  readonly #required: Requirements;
  readonly #trustSettings: boolean;
  readonly #clock: Clock;
  /** What is under way, by the time at which it is given up. Who waits for it keeps the process alive, not this. */
  readonly #calls: DueQueue<CallIo>;
  #opening: Promise<Backend> | undefined;
  #backend: Backend | undefined;
  #closed = false;

  constructor(
    driver: Driver,
    context: DriverContext,
    options: { readonly required: Requirements; readonly trustSettings: boolean },
  ) {
    this.#driver = driver;
    this.#context = context;
    this.#required = options.required;
    this.#trustSettings = options.trustSettings;
    this.#clock = context.clock;
    this.#calls = new DueQueue(
      context.clock,
      () => context.clock.mono(),
      (due) => {
        for (const io of due) io.expire(io, `no answer within ${Math.round(io.timeoutMs)} ms`);
      },
    );
  }

  /**
   * One step at the backend. Rejects with a `DriverError` only; after `timeoutMs` with outcome `unknown`, and whatever
   * comes later is dropped.
   */
  async call<T>(timeoutMs: number, run: (backend: Backend, io: Io) => Promise<T>): Promise<T> {
    if (this.#closed) throw new DriverError("unavailable", "not-applied", "the manager is closed");
    return await new Promise<T>((resolve, reject) => {
      const io = new CallIo(timeoutMs, (over, why) => {
        over.end();
        // A backend that was never opened was never asked either.
        const outcome = this.#backend === undefined ? "not-applied" : "unknown";
        reject(new DriverError("timeout", outcome, why));
      });
      this.#calls.set(io, this.#clock.mono() + timeoutMs);
      const backend = this.#backend;
      const answer =
        backend === undefined
          ? this.#open().then(async (opened) => {
              // Nobody waits for the answer any more, and what would be granted now would be nobody's.
              if (io.over) throw new DriverError("timeout", "not-applied", "open too late");
              return await run(opened, io);
            })
          : run(backend, io);
      answer.then(
        (value) => {
          this.#calls.delete(io);
          resolve(value);
        },
        (error: unknown) => {
          this.#calls.delete(io);
          reject(asDriverError(error));
        },
      );
    });
  }

  /**
   * Closes what was opened, and gives up what is under way. Whatever is asked from then on is refused: it would open the
   * backend again.
   */
  async close(): Promise<void> {
    this.#closed = true;
    for (const io of [...this.#calls.items()]) io.expire(io, "the manager is closed");
    this.#calls.clear();
    const backend = this.#backend ?? (await this.#opening?.catch(() => undefined));
    this.#backend = undefined;
    this.#opening = undefined;
    await backend?.close();
  }

  async #open(): Promise<Backend> {
    // A failed opening is forgotten, so that the next use tries again.
    this.#opening ??= this.#bounded(OPEN_MS, async (io) => this.#connect(io)).then(
      (backend) => (this.#backend = backend),
      (error: unknown) => {
        this.#opening = undefined;
        throw asDriverError(error);
      },
    );
    return await this.#opening;
  }

  async #bounded<T>(timeoutMs: number, run: (io: CallIo) => Promise<T>): Promise<T> {
    return await new Promise<T>((resolve, reject) => {
      const io = new CallIo(timeoutMs, (over, why) => {
        over.end();
        reject(new DriverError("timeout", "not-applied", `not open: ${why}`));
      });
      this.#calls.set(io, this.#clock.mono() + timeoutMs);
      run(io)
        .then(resolve, reject)
        .finally(() => {
          this.#calls.delete(io);
        });
    });
  }

  async #connect(io: CallIo): Promise<Backend> {
    const missing = unmet(this.#driver, this.#required);
    if (missing.length > 0) throw cannotKeep(missing);
    const backend = await this.#driver.open(this.#context);
    try {
      if (io.over) throw new DriverError("timeout", "not-applied", "open too late");
      if (!this.#trustSettings) refuseBad(await backend.probe(io));
      return backend;
    } catch (error) {
      // What is not used is not left open; why it is not used is the news, whatever closing it says.
      await backend.close().catch(() => undefined);
      throw error;
    }
  }
}

function refuseBad(findings: readonly Finding[]): void {
  const refused = findings.filter((finding) => finding.verdict === "refuse");
  if (refused.length === 0) return;
  throw cannotKeep(
    refused.map(
      ({ name, value, advice }) =>
        `${name} is ${value}${advice === undefined ? "" : ` (${advice})`}`,
    ),
  );
}

function cannotKeep(problems: readonly string[]): DriverError {
  return new DriverError(
    "config",
    "not-applied",
    `the backend cannot keep what is required: ${problems.join("; ")}`,
  );
}
