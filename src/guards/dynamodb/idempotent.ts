import { type Duration, parseDuration, show, YEAR_MS } from "../../core/duration.ts";
import { IdempotencyConflictError, InvalidArgumentError } from "../../core/errors.ts";
import { CONFLICT } from "../../runtime/optimistic.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { type DynamoTransaction, read, transactionOf } from "./transaction.ts";

/** Options of `idempotent`. */
export interface DynamoIdempotentOptions {
  /** Where keys are; `"ringfence_guard"` by default. The guard's own table will do. */
  readonly table?: string;
  /**
   * For how long a key is kept at least; `"7d"` by default. Removing them afterwards is the table's time to live, by
   * the attribute `expires_at`: where that is not switched on, keys stay.
   */
  readonly keep?: Duration;
}

const MAX_KEY_BYTES = 255;

/**
 * Runs `fn` once per key: effect, key and response are in one transaction, `tx`. A later call with the key gets the
 * first response and does not run `fn`. Of two at the same time one commits; the other's transaction starts again and
 * finds that response, so `fn` may run without effect: what it does outside `tx` is not covered.
 *
 * The response is what JSON makes of it, for the first caller too.
 * @throws IdempotencyConflictError when the key was used for another request, InvalidArgumentError, BackendError, and what `fn` throws
 */
export async function idempotent<T>(
  transaction: DynamoTransaction,
  key: string,
  request: unknown,
  fn: (tx: DynamoTransaction) => Promise<T>,
  options: DynamoIdempotentOptions = {},
): Promise<T> {
  const { table = "ringfence_guard", keep = "7d" } = options;
  checkKey(key);
  const keepMs = parseDuration("keep", keep, { min: 1000, max: YEAR_MS });
  const tx = transactionOf(transaction);
  const print = systemMac.sha256(json(sorted(request)));
  const pk = { pk: { S: `k#${key}` } };
  const stored = await read(tx.calls, table, pk);
  if (stored !== undefined) {
    if (stored["request"]?.S !== print) throw new IdempotencyConflictError(key);
    return JSON.parse(stored["response"]?.S ?? "null") as T;
  }
  const response = written(await fn(tx));
  tx.add({
    write: {
      Put: {
        TableName: table,
        Item: {
          ...pk,
          request: { S: print },
          response: { S: response },
          expires_at: { N: String(Math.ceil((systemClock.wall() + keepMs) / 1000)) },
        },
        ConditionExpression: "attribute_not_exists(pk)",
      },
    },
    // Another call with this key was first: begin again, and find its response.
    refused: () => CONFLICT,
  });
  return JSON.parse(response) as T;
}

/** @throws InvalidArgumentError for a key that cannot be stored as it is */
function checkKey(key: unknown): void {
  if (typeof key !== "string" || key === "" || Buffer.byteLength(key) > MAX_KEY_BYTES)
    throw new InvalidArgumentError(
      `Expected the idempotency key to be a string of 1 to ${MAX_KEY_BYTES} bytes, got ${show(key)}.`,
    );
}

/** JSON has no word for `undefined` and functions. */
function json(value: unknown): string {
  return typeof value === "undefined" || typeof value === "function"
    ? "null"
    : JSON.stringify(value);
}

/** @throws InvalidArgumentError for what JSON cannot hold */
function written(response: unknown): string {
  try {
    return json(response);
  } catch (error) {
    throw new InvalidArgumentError(
      "Expected the response to be something that JSON can hold.",
      error,
    );
  }
}

/** Equal requests are equal in whatever order their members are. */
function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if ("toJSON" in value && typeof value.toJSON === "function") return value;
  if (Array.isArray(value)) return value.map(sorted);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]));
}
