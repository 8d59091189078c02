import { show } from "../../core/duration.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import type { Answer } from "./client.ts";
import type { Stored } from "./sql.ts";

const MAX_KEY_BYTES = 255;

/** @throws InvalidArgumentError for a key that cannot be stored as it is */
export function checkKey(key: unknown): asserts key is string {
  if (
    typeof key !== "string" ||
    key === "" ||
    key.includes("\0") ||
    Buffer.byteLength(key) > MAX_KEY_BYTES
  )
    throw new InvalidArgumentError(
      `Expected the idempotency key to be a string of 1 to ${MAX_KEY_BYTES} bytes, got ${show(key)}.`,
    );
}

/** A fingerprint of the request: equal for equal JSON, in whatever order its members are. */
export function fingerprint(request: unknown): string {
  return systemMac.sha256(json(sorted(request)) ?? "undefined");
}

/** JSON has no word for `undefined` and functions, whatever the declared type says. */
function json(value: unknown): string | undefined {
  return JSON.stringify(value);
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if ("toJSON" in value && typeof value.toJSON === "function") return value;
  if (Array.isArray(value)) return value.map(sorted);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]));
}

/** A response as it is stored. @throws InvalidArgumentError for what JSON cannot hold */
export function written(response: unknown): string {
  try {
    return json(response) ?? "null";
  } catch (error) {
    throw new InvalidArgumentError(
      "Expected the response to be something that JSON can hold.",
      error,
    );
  }
}

/** A response as everybody gets it, the first caller too. */
export function returned(text: string): unknown {
  return JSON.parse(text) as unknown;
}

/** What is stored; `null` where nothing is. */
export function storedIn({ rows }: Answer): Stored | null {
  const row = rows[0];
  if (row === undefined) return null;
  const text = (name: string): string => String(row[name]);
  return {
    // MySQL gives bytes.
    request: text("request"),
    state: text("state") === "done" ? "done" : "pending",
    response: row["response"] === null ? null : text("response"),
    busy: Number(row["busy"]) === 1,
  };
}
