import { InvalidArgumentError } from "./errors.ts";
import { parseToken } from "./fencing-token.ts";
import { checkName } from "./lock-name.ts";
import { isId } from "./sequencer.ts";

/** A lease on its way to another process. The secret is what makes it the lease: whoever has it can take it over. */
export interface ExportedLease {
  readonly name: string;
  /** 20 random bytes as a binary string. */
  readonly secret: string;
  readonly scope: string;
  readonly ttlMs: number;
  readonly lockDelayMs: number;
  readonly token: bigint | null;
}

const VERSION = "rfx1";

function hex(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}

/** Writes an exported lease as one line of text. */
export function encodeExport(lease: ExportedLease): string {
  const secret = Array.from({ length: lease.secret.length }, (_, i) =>
    hex(lease.secret.charCodeAt(i)),
  ).join("");
  const { name, scope, ttlMs, lockDelayMs } = lease;
  return JSON.stringify([
    VERSION,
    name,
    secret,
    scope,
    ttlMs,
    lockDelayMs,
    lease.token?.toString() ?? null,
  ]);
}

/** @throws InvalidArgumentError for anything that `encodeExport` did not write */
export function decodeExport(text: string): ExportedLease {
  const fail = (): InvalidArgumentError =>
    new InvalidArgumentError("Expected the string that `lease.export()` returned.");
  if (typeof text !== "string" || text.length > 8192) throw fail();
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    throw fail();
  }
  if (!Array.isArray(fields) || fields.length !== 7) throw fail();
  const [version, name, secret, scope, ttlMs, lockDelayMs, token] = fields as unknown[];
  if (version !== VERSION || typeof secret !== "string" || !/^(?:[0-9a-f]{2}){20}$/.test(secret))
    throw fail();
  if (!isId(scope) || typeof ttlMs !== "number" || typeof lockDelayMs !== "number") throw fail();
  checkName(name);
  const bytes = secret.match(/../g) ?? [];
  return {
    name,
    secret: String.fromCharCode(...bytes.map((pair) => Number.parseInt(pair, 16))),
    scope,
    ttlMs,
    lockDelayMs,
    token: parseToken(token),
  };
}
