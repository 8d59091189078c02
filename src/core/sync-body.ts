import { InvalidArgumentError } from "./errors.ts";

/**
 * Refuses a body that is no function, or surely asynchronous, before it runs: what an async function did after its
 * first `await` would happen outside the transaction.
 * @throws InvalidArgumentError
 */
export function checkSyncBody(fn: unknown): void {
  if (typeof fn !== "function")
    throw new InvalidArgumentError("Expected the transaction's body to be a function.");
  if (Object.prototype.toString.call(fn) === "[object AsyncFunction]") throw asynchronous();
}

/**
 * Refuses a promise as the result of a synchronous body.
 * @throws InvalidArgumentError; the caller rolls back
 */
export function checkSyncResult(result: unknown): void {
  if (typeof result !== "object" || result === null || !("then" in result)) return;
  // Nobody will await it: its own failure must not become an unhandled rejection on top.
  Promise.resolve(result).catch(() => undefined);
  throw asynchronous();
}

function asynchronous(): InvalidArgumentError {
  return new InvalidArgumentError(
    "Expected a synchronous body: this transaction cannot wait for a promise. Nothing was written.",
  );
}
