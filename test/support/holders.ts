import { randomBytes } from "node:crypto";
import type { Presented } from "../../src/core/guard.ts";

/** The scope of the lock that a test is about. */
export const SCOPE: string = "scope".padEnd(27, "-");

/** A holder with this token, as some lock service let it in. */
export function holder(token: bigint, scope: string = SCOPE): Presented {
  return { token, grantId: randomBytes(20).toString("base64url"), scope, trust: true };
}
