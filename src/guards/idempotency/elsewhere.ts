/*
 * An effect in another system: no transaction covers both, so the key goes through three states of our table.
 *   1. `pending` is committed, with whose attempt it is and until when nobody else should take it up.
 *   2. The call is made, with a key for the provider that follows from ours: the same at every attempt.
 *   3. `done` is committed, with the response. The first to say so wins; everybody gets that response.
 * What a crash leaves: before 2 and after 2 look alike, `pending` with its time up. With a provider that knows keys the
 * call is made again and does nothing twice. Without one somebody has to choose, by name: `at-most-once` does not call
 * again and asks people; `at-least-once` calls again.
 * A slow attempt and the one that took over may call at the same time: that is what the provider's key is for, and why
 * `attemptFor` should be longer than any call that may still succeed.
 */
import { type Duration, parseDuration, YEAR_MS } from "../../core/duration.ts";
import type { RingfenceError } from "../../core/errors.ts";
import {
  BackendError,
  IdempotencyConflictError,
  IdempotencyInProgressError,
  InvalidArgumentError,
} from "../../core/errors.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import { type Answer, clientOf, type Queries, type Statement } from "./client.ts";
import { failure } from "./errors.ts";
import { checkKey, fingerprint, returned, storedIn, written } from "./request.ts";
import { type Attempt, checkTable, type Statements, statementsFor, TABLE } from "./sql.ts";

/** What the provider of the effect can do, or what to do when it can do nothing. */
export type Provider = "has-keys" | "at-most-once" | "at-least-once";

/** Options of `idempotentCall`. */
export interface CallOptions {
  /**
   * `"has-keys"`: it carries out a call once per key that it is given. For one that does not: `"at-most-once"` never
   * calls again after an outcome that is not known, `"at-least-once"` does, and may so do it twice.
   */
  readonly provider: Provider;
  /** How long one attempt may take, by the database's clock: until then others are refused. `"1m"` by default, 1 ms to a year. */
  readonly attemptFor?: Duration;
  /** Where keys are; `"ringfence_idempotency"` by default. */
  readonly table?: string;
}

const PROVIDERS: readonly unknown[] = ["has-keys", "at-most-once", "at-least-once"];

/**
 * Makes a call to another system once per key, as far as that system allows. `call` gets the provider's key. A later
 * call with our key gets the first response. `db` is a pool or a connection, not a transaction: what is written here
 * must be committed before the call.
 *
 * When `call` throws, the outcome counts as unknown, and a retry is decided by `provider`; unless the error is a
 * `BackendError` with `outcome: "not-applied"`, with which `call` vouches that nothing happened: then the key is free.
 * @throws IdempotencyConflictError, IdempotencyInProgressError while an attempt has time left, BackendError with `outcome: "unknown"` where `at-most-once` will not call again, InvalidArgumentError, and what `call` throws
 */
export async function idempotentCall<T>(
  db: Queries,
  key: string,
  request: unknown,
  call: (providerKey: string) => Promise<T>,
  options: CallOptions,
): Promise<T> {
  checkKey(key);
  if (!PROVIDERS.includes((options as Partial<CallOptions> | undefined)?.provider))
    throw new InvalidArgumentError(
      'Expected `provider` to be "has-keys", "at-most-once" or "at-least-once".',
    );
  const forMs = parseDuration("attemptFor", options.attemptFor ?? "1m", { min: 1, max: YEAR_MS });
  const keys = new Keys(db, options.table ?? TABLE);
  const attempt = {
    id: systemMac.sha256(Buffer.from(systemRandom.bytes(20)).toString("hex")),
    forMs,
  };
  const before = await keys.begin(key, {
    print: fingerprint(request),
    attempt,
    provider: options.provider,
  });
  if (before !== null) return returned(before) as T;
  let response: string;
  try {
    response = written(await call(providerKey(key)));
  } catch (error) {
    if (error instanceof BackendError && error.outcome === "not-applied")
      await keys.forget(key, attempt.id, error);
    throw error;
  }
  return returned(await keys.finish(key, response)) as T;
}

/**
 * Settles a key that `at-most-once` left open, after somebody looked at the other system: with the response that it
 * gave, or with `{ again: true }` when nothing had happened there. Resolves to whether the key was open.
 * @throws InvalidArgumentError, BackendError
 */
export async function settleIdempotentCall(
  db: Queries,
  key: string,
  outcome: { readonly response: unknown } | { readonly again: true },
  options: { readonly table?: string } = {},
): Promise<boolean> {
  checkKey(key);
  const keys = new Keys(db, options.table ?? TABLE);
  if ("again" in outcome) return (await keys.run(key, keys.sql.forget(key, null))).count === 1;
  return (await keys.run(key, keys.sql.finish(key, written(outcome.response)))).count === 1;
}

/** Follows from our key alone, so that every attempt, in whatever process, gives the same. */
function providerKey(key: string): string {
  return systemMac.sha256(`ringfence provider key\n${key}`).slice(0, 32);
}

interface Beginning {
  readonly print: string;
  readonly attempt: Attempt;
  readonly provider: Provider;
}

class Keys {
  readonly sql: Statements;
  readonly #client: ReturnType<typeof clientOf>;

  constructor(db: Queries, table: string) {
    this.#client = clientOf(db);
    this.sql = statementsFor(this.#client.dialect, checkTable(table));
  }

  async run(key: string, statement: Statement): Promise<Answer> {
    try {
      return await this.#client.run(statement);
    } catch (error) {
      throw failure(error, key, this.sql.schema);
    }
  }

  /** The response that is there already, or `null`: then the attempt is ours. */
  async begin(key: string, { print, attempt, provider }: Beginning): Promise<string | null> {
    for (;;) {
      if ((await this.run(key, this.sql.insert(key, print, attempt))).count === 1) return null;
      const stored = storedIn(await this.run(key, this.sql.read(key)));
      // Forgotten between the two statements: then the key is new after all.
      if (stored === null) continue;
      if (stored.request !== print) throw new IdempotencyConflictError(key);
      if (stored.state === "done" && stored.response !== null) return stored.response;
      if (stored.busy) throw new IdempotencyInProgressError(key);
      if (provider === "at-most-once") throw unknownOutcome(key);
      if ((await this.run(key, this.sql.takeOver(key, attempt))).count === 1) return null;
    }
  }

  /** The response that stands: ours, or that of an attempt which was first. */
  async finish(key: string, response: string): Promise<string> {
    if ((await this.run(key, this.sql.finish(key, response))).count === 1) return response;
    const stored = storedIn(await this.run(key, this.sql.read(key)));
    return stored?.response ?? response;
  }

  async forget(key: string, attemptId: string, why: RingfenceError): Promise<void> {
    try {
      await this.run(key, this.sql.forget(key, attemptId));
    } catch (error) {
      // The key stays pending, which is safe; why the call failed is the news.
      why.suppressed ??= error;
    }
  }
}

function unknownOutcome(key: string): BackendError {
  return new BackendError(
    `The call with idempotency key "${key}" was begun and its outcome is not known: look at the other system, and settle it with \`settleIdempotentCall\``,
    { operation: "call", outcome: "unknown" },
  );
}
