import { InvalidArgumentError } from "../../core/errors.ts";
import { isToken } from "../../core/fencing-token.ts";
import type { FencedLease } from "../../core/lease.ts";
import { MAX_SEQUENCER } from "../../core/sequencer.ts";
import { SEQUENCER_HEADER } from "./header.ts";

/** Options of `fencedFetch`. */
export interface FencedFetchOptions {
  /**
   * Where the sequencer may go, as origins (`"https://api.example"`); a request elsewhere is refused. A signed
   * sequencer lets whoever sees it write as this holder. Everywhere by default.
   */
  readonly origins?: readonly string[];
  /** What sends; the global `fetch` by default. */
  readonly fetch?: typeof fetch;
}

/**
 * A `fetch` whose requests are made under a lease: each carries the sequencer header, reads too. With a lease of this
 * process it rejects with a `LeaseLostError` where the lease is over, and is aborted when it is lost meanwhile; the
 * server decides all the same. Redirects are not followed unless `redirect` says so: the header would go along.
 * It resolves to refusals as to every response: `staleFrom(response)` tells them.
 *
 * @example
 * await locks.request("documents/7", async (lease) => {
 *   const send = fencedFetch(lease, { origins: ["https://api.example"] });
 *   const seen = await send("https://api.example/documents/7");
 * });
 * @param lease - an exclusive lease with a token, or its sequencer
 * @throws InvalidArgumentError for a shared lease, a permit, or a lease without a token
 */
export function fencedFetch(
  lease: FencedLease | string,
  options: FencedFetchOptions = {},
): typeof fetch {
  const { fetch: send = fetch } = options;
  const origins = options.origins?.map(originOf);
  const sequencer = sequencerOf(lease);
  return async (input, init) => {
    const request = new Request(input, { redirect: "error", ...init });
    if (origins?.includes(new URL(request.url).origin) === false)
      throw new InvalidArgumentError(
        `Expected a request to ${origins.join(" or ")}: the sequencer goes nowhere else, not to ${new URL(request.url).origin}.`,
      );
    request.headers.set(SEQUENCER_HEADER, sequencer);
    if (typeof lease === "string") return send(request);
    lease.assertHeld();
    return send(request, { signal: AbortSignal.any([request.signal, lease.signal]) });
  };
}

function sequencerOf(lease: FencedLease | string): string {
  if (typeof lease === "string") {
    if (/^rf1\.[\w.-]+$/.test(lease) && lease.length <= MAX_SEQUENCER) return lease;
    throw new InvalidArgumentError("Expected a lease, or the string of its `sequencer`.");
  }
  const given = lease as { readonly mode?: unknown; readonly token?: unknown } | null;
  const [mode, token] = [given?.mode, given?.token];
  if (mode !== "exclusive" || !isToken(token))
    throw new InvalidArgumentError(
      "Expected an exclusive lease with a fencing token: no other can claim.",
    );
  return lease.sequencer;
}

function originOf(text: string): string {
  try {
    return new URL(text).origin;
  } catch (error) {
    throw new InvalidArgumentError(
      `Expected each of \`origins\` to be a URL, got "${text}".`,
      error,
    );
  }
}
