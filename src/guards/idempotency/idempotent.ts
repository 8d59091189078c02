import { IdempotencyConflictError, IdempotencyInProgressError } from "../../core/errors.ts";
import { checkSyncBody, checkSyncResult } from "../../core/sync-body.ts";
import {
  type Answer,
  type AsyncQueries,
  type Client,
  checkTransaction,
  clientOf,
  type Queries,
  type SqliteQueries,
  type Statement,
} from "./client.ts";
import { failure } from "./errors.ts";
import { checkKey, fingerprint, returned, storedIn, written } from "./request.ts";
import { checkTable, type Statements, statementsFor, TABLE } from "./sql.ts";

/** Options of `idempotent`. */
export interface IdempotentOptions {
  /** Where keys are; `"ringfence_idempotency"` by default. */
  readonly table?: string;
  /**
   * What a call does that meets one with the same key on its way: `"wait"` for its end, the default, at most for the
   * transaction's own timeouts; or `"refuse"` at once with `IdempotencyInProgressError`. On SQLite, which has one writer
   * at a time, it has always waited at BEGIN already.
   */
  readonly inProgress?: "wait" | "refuse";
}

/**
 * Runs `fn` once per key: effect, key and response are in one transaction, the caller's, which the caller commits. A
 * later call with the key gets the first response and does not run `fn`. When `fn` throws, neither is left, even if the
 * transaction is committed after that.
 *
 * The response is what JSON makes of it, for the first caller too. Keys are kept until `sweepIdempotency` removes them:
 * a retry after that runs again. `fn`'s effects outside the transaction are not covered: see `idempotentCall`.
 * @throws IdempotencyConflictError when the key was used for another request, IdempotencyInProgressError, InvalidArgumentError, BackendError, and what `fn` throws
 */
export function idempotent<T, C extends SqliteQueries>(
  tx: C,
  key: string,
  request: unknown,
  fn: (tx: C) => T,
  options?: IdempotentOptions,
): T;
/** As for SQLite, with a client that answers later. */
export function idempotent<T, C extends AsyncQueries>(
  tx: C,
  key: string,
  request: unknown,
  fn: (tx: C) => Promise<T>,
  options?: IdempotentOptions,
): Promise<T>;
export function idempotent(
  tx: Queries,
  key: string,
  request: unknown,
  fn: (tx: never) => unknown,
  options: IdempotentOptions = {},
): unknown {
  const client = clientOf(tx);
  const sql = statementsFor(client.dialect, checkTable(options.table ?? TABLE));
  const failed = (error: unknown): unknown => failure(error, key, sql.schema);
  const wait = options.inProgress !== "refuse";
  if (client.sync) {
    start(tx, key);
    checkSyncBody(fn);
    return driveSync(client, steps(client, sql, { key, request, wait }), {
      fn: () => fn(tx as never),
      failed,
    });
  }
  return (async () => {
    start(tx, key);
    return await drive(client, steps(client, sql, { key, request, wait }), {
      fn: async () => fn(tx as never),
      failed,
    });
  })();
}

function start(tx: Queries, key: string): void {
  checkTransaction(tx);
  checkKey(key);
}

/** What the steps ask for: a statement's answer, or the effect's result. */
type Ask = { readonly sql: Statement } | { readonly effect: true };
type Steps = Generator<Ask, unknown, unknown>;

const SAVEPOINT = "ringfence_effect";

/** One order of steps for clients that answer at once and for those that answer later. */
function* steps(
  { dialect }: Client,
  sql: Statements,
  {
    key,
    request,
    wait,
  }: { readonly key: string; readonly request: unknown; readonly wait: boolean },
): Steps {
  const print = fingerprint(request);
  const met = sql.meet(key, wait);
  if (met !== null) {
    const { rows } = (yield { sql: met }) as Answer;
    if (dialect === "postgres" && !wait && rows[0]?.["met"] === "false")
      throw new IdempotencyInProgressError(key);
  }
  yield { sql: { text: `SAVEPOINT ${SAVEPOINT}` } };
  for (;;) {
    const { count } = (yield { sql: sql.insert(key, print, { id: "", forMs: 0 }) }) as Answer;
    if (count === 1) return yield* firstTime(sql, key);
    const stored = storedIn((yield { sql: sql.read(key) }) as Answer);
    // Swept between the two statements: then the key is new after all.
    if (stored === null) continue;
    yield { sql: { text: `RELEASE SAVEPOINT ${SAVEPOINT}` } };
    if (stored.request !== print) throw new IdempotencyConflictError(key);
    if (stored.state === "pending" || stored.response === null)
      throw new IdempotencyInProgressError(key);
    return returned(stored.response);
  }
}

function* firstTime(sql: Statements, key: string): Steps {
  let response: string;
  try {
    response = written(yield { effect: true });
    yield { sql: sql.finish(key, response) };
  } catch (error) {
    yield { sql: { text: `ROLLBACK TO SAVEPOINT ${SAVEPOINT}` } };
    throw error;
  }
  yield { sql: { text: `RELEASE SAVEPOINT ${SAVEPOINT}` } };
  return returned(response);
}

interface Effects<F> {
  readonly fn: F;
  readonly failed: (error: unknown) => unknown;
}

function driveSync(
  client: Client & { readonly sync: true },
  asked: Steps,
  { fn, failed }: Effects<() => unknown>,
): unknown {
  let step = asked.next();
  while (step.done !== true) {
    let answer: unknown;
    try {
      if ("sql" in step.value) answer = client.run(step.value.sql);
      else {
        answer = fn();
        checkSyncResult(answer);
      }
    } catch (error) {
      step = asked.throw("sql" in step.value ? failed(error) : error);
      continue;
    }
    step = asked.next(answer);
  }
  return step.value;
}

async function drive(
  client: Client & { readonly sync: false },
  asked: Steps,
  { fn, failed }: Effects<() => Promise<unknown>>,
): Promise<unknown> {
  let step = asked.next();
  while (step.done !== true) {
    let answer: unknown;
    try {
      answer = "sql" in step.value ? await client.run(step.value.sql) : await fn();
    } catch (error) {
      step = asked.throw("sql" in step.value ? failed(error) : error);
      continue;
    }
    step = asked.next(answer);
  }
  return step.value;
}
