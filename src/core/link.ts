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
import { show } from "./duration.ts";
import {
  BackendConfigError,
  BackendError,
  BackendTimeoutError,
  BackendUnavailableError,
  QuorumError,
} from "./errors.ts";

/** A step at an open backend. */
type Run<T> = (backend: Backend, io: Io) => PromiseLike<T>;

/** A step at the backend, and who hears of its end. */
export interface Step<T> {
  /** Called once the backend is open. */
  run(backend: Backend, io: Io): PromiseLike<T>;
  answered(value: T): void;
  failed(error: DriverError): void;
}

/** How long opening and probing a backend may take. */
const OPEN_MS = 10_000;

/** One step on its way, and its limits. The signal is made only for a driver that reads it. */
class Call<T> implements Io, Due {
  dueAt = -1;
  readonly timeoutMs: number;
  /** It was given up: nobody waits for an answer any more. */
  over = false;
  readonly #step: Step<T>;
  readonly #givenUp: (why: string) => DriverError;
  /** It has its answer, or was given up: what comes later is dropped. */
  #settled = false;
  #controller: AbortController | undefined;

  constructor(timeoutMs: number, step: Step<T>, givenUp: (why: string) => DriverError) {
    this.timeoutMs = timeoutMs;
    this.#step = step;
    this.#givenUp = givenUp;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.over) this.#controller.abort();
    return this.#controller.signal;
  }

  /** Waits for the answer, among the calls that have a limit. */
  await(answer: PromiseLike<T>, among: DueQueue<Limited>): void {
    answer.then(
      (value) => {
        if (this.#settled) return;
        this.#settled = true;
        among.delete(this);
        if (value === undefined || value === null) this.#step.failed(noAnswer(value));
        else this.#step.answered(value);
      },
      (error: unknown) => {
        if (this.#settled) return;
        this.#settled = true;
        among.delete(this);
        this.#step.failed(asDriverError(error));
      },
    );
  }

  giveUp(why: string): void {
    this.over = true;
    this.#settled = true;
    this.#controller?.abort();
    this.#step.failed(this.#givenUp(why));
  }
}

/** An opening that may have been given up meanwhile. */
type Opening = Io & { readonly over: boolean };

/** A call that can be given up. */
interface Limited extends Due {
  readonly timeoutMs: number;
  giveUp(why: string): void;
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

/** An answer that the port does not know: a mistake in the driver, whatever happened at the backend. */
export function noAnswer(answer: unknown): DriverError {
  return new DriverError("config", "unknown", `the driver answered ${show(answer)}`);
}

/** A driver that throws instead of rejecting is heard all the same. */
async function thrown(error: unknown): Promise<never> {
  throw asDriverError(error);
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
  readonly #calls: DueQueue<Limited>;
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
        for (const call of due) call.giveUp(`no answer within ${Math.round(call.timeoutMs)} ms`);
      },
    );
  }

  /** One step at the backend, as `perform` does it. Rejects with a `DriverError` only. */
  async call<T>(timeoutMs: number, run: Run<T>): Promise<T> {
    return await new Promise<T>((answered, failed) => {
      this.perform(timeoutMs, { run, answered, failed });
    });
  }

  /**
   * One step at the backend, which hears of its end once, and never before this returns. After `timeoutMs` it has failed
   * with outcome `unknown`, and whatever comes later is dropped. `mono`: a reading of the clock that was just taken.
   */
  perform<T>(timeoutMs: number, step: Step<T>, mono: number = this.#clock.mono()): void {
    const call = new Call<T>(timeoutMs, step, this.#givenUp);
    let answer: PromiseLike<T>;
    if (this.#closed)
      answer = thrown(new DriverError("unavailable", "not-applied", "the manager is closed"));
    else {
      this.#calls.set(call, mono + timeoutMs);
      const backend = this.#backend;
      try {
        answer = backend === undefined ? this.#openAnd(step, call) : step.run(backend, call);
      } catch (error) {
        answer = thrown(error);
      }
    }
    call.await(answer, this.#calls);
  }

  readonly #givenUp = (why: string): DriverError => {
    // A backend that was never opened was never asked either.
    const outcome = this.#backend === undefined ? "not-applied" : "unknown";
    return new DriverError("timeout", outcome, why);
  };

  async #openAnd<T>(step: Step<T>, call: Call<T>): Promise<T> {
    const backend = await this.#open();
    // Nobody waits for the answer any more, and what would be granted now would be nobody's.
    if (call.over) throw new DriverError("timeout", "not-applied", "open too late");
    return await step.run(backend, call);
  }

  /**
   * Closes what was opened, and gives up what is under way. Whatever is asked from then on is refused: it would open the
   * backend again.
   */
  async close(): Promise<void> {
    this.#closed = true;
    for (const call of [...this.#calls.items()]) call.giveUp("the manager is closed");
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

  async #bounded<T>(timeoutMs: number, run: (call: Opening) => Promise<T>): Promise<T> {
    return await new Promise<T>((answered, failed) => {
      const step = { run: async () => run(call), answered, failed };
      const call: Call<T> = new Call<T>(
        timeoutMs,
        step,
        (why) => new DriverError("timeout", "not-applied", `not open: ${why}`),
      );
      this.#calls.set(call, this.#clock.mono() + timeoutMs);
      call.await(step.run(), this.#calls);
    });
  }

  async #connect(io: Opening): Promise<Backend> {
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
