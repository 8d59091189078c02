import type { InvalidArgumentError } from "../../core/errors.ts";
import {
  BackendTimeoutError,
  BackendUnavailableError,
  type ErrorCode,
  GuardScopeError,
  StaleTokenError,
} from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";

/** The media type of a refusal (RFC 9457). */
const PROBLEM_TYPE = "application/problem+json";

/** The body of a refusal. Tokens are decimal strings. */
export interface Problem {
  /** `urn:ringfence:` and one word: what programs compare. */
  readonly type: string;
  readonly title: string;
  /** 400 malformed, 409 stale or another lock's, 428 missing, 503 the guard's store did not answer. */
  readonly status: 400 | 409 | 428 | 503;
  readonly detail: string;
  readonly code?: ErrorCode;
  readonly resource?: string;
  readonly presented?: string;
  /** What the resource has; `null` where it has no claim at all. */
  readonly highest?: string | null;
  readonly step?: "claim" | "verify";
}

const STALE = "urn:ringfence:stale-token";
const SCOPE = "urn:ringfence:wrong-scope";

/** A request that must be made under a lease came without the header. */
export function missing(header: string): Problem {
  return {
    type: "urn:ringfence:sequencer-required",
    title: "This request must be made under a lease",
    status: 428,
    detail: `Send the lease's sequencer in the header ${header}.`,
  };
}

/** What a sequencer, or a resource, that cannot be read is answered with. */
export function malformed(error: InvalidArgumentError): Problem {
  return {
    type: "urn:ringfence:malformed",
    title: "The sequencer or the resource cannot be accepted",
    status: 400,
    detail: error.message,
    code: error.code,
  };
}

/** A lease of another lock, or of another lock manager, says nothing here, whatever its number. */
export function wrongLock(detail: string): Problem {
  return {
    type: SCOPE,
    title: "Another lock guards this resource",
    status: 409,
    detail,
    code: "ERR_GUARD_SCOPE",
  };
}

/**
 * The answer to an error of a guard: 409 for a stale holder or another lock's. `null` for every other error, also for
 * an `InvalidArgumentError`: thrown by a handler it is a mistake of the server.
 */
export function problemOf(error: unknown): Problem | null {
  if (error instanceof StaleTokenError)
    return {
      type: STALE,
      title: "A newer holder has claimed this resource",
      status: 409,
      detail: error.message,
      code: error.code,
      resource: error.resource,
      presented: error.presented.toString(),
      highest: error.highest?.toString() ?? null,
      step: error.step,
    };
  if (error instanceof GuardScopeError)
    return { ...wrongLock(error.message), resource: error.resource };
  return null;
}

/** The answer to a claim that failed; `null` where the failure is for the server's own error handling. */
export function problemOfClaim(error: unknown): Problem | null {
  if (error instanceof BackendUnavailableError || error instanceof BackendTimeoutError)
    return {
      type: "urn:ringfence:guard-unavailable",
      title: "The guard's store did not answer",
      status: 503,
      // Its own words may name hosts and users: they stay in the server.
      detail: "Nothing was written. The same request may be sent again.",
      code: error.code,
    };
  return problemOf(error);
}

/** The headers of a refusal. */
export function headersOf(problem: Problem): Readonly<Record<string, string>> {
  return {
    "content-type": PROBLEM_TYPE,
    "cache-control": "no-store",
    ...(problem.status === 503 ? { "retry-after": "1" } : {}),
  };
}

/**
 * Reads a refusal: a `StaleTokenError` when the response says that a newer holder came, `null` for every other
 * response. Reads a clone, so that the body is still there for the caller.
 */
export async function staleFrom(response: Response): Promise<StaleTokenError | null> {
  const type = response.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (response.status !== 409 || type !== PROBLEM_TYPE) return null;
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  if (typeof body !== "object" || body === null) return null;
  const { type: kind, resource, presented, highest, step } = body as Record<string, unknown>;
  const token = parseToken(presented);
  if (kind !== STALE || typeof resource !== "string" || token === null) return null;
  if (step !== "claim" && step !== "verify") return null;
  return new StaleTokenError({
    resource,
    presented: token,
    highest: highest === "0" ? 0n : parseToken(highest),
    step,
  });
}
