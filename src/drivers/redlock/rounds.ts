/**
 * The two protocols of a lock over independent servers, as pure functions: how a grant and its token come about, and how
 * a lease is extended. The driver feeds them what the servers say; the exhaustive check feeds them everything that they
 * could say, in every order.
 *
 * A round takes the lock on each server under a value of its own, and each server says the number c that it minted. Once
 * a quorum has it, the token is the largest c. It is then written back where value *and* c still match, so that no later
 * holder of those servers gets a number that is not above it. The grant counts when a quorum confirmed the write-back.
 * Two grants share a server in their write-back quorums; there the later one's c is above the earlier one's token, and
 * its own token no smaller than that c.
 */
import { MAX_TOKEN } from "../../core/fencing-token.ts";

/** One tenure of one server: the value that it was taken under, and the number that the server minted for it. */
export interface Hold {
  readonly value: string;
  readonly counter: bigint;
}

/** What one round is about. */
export interface RoundTerms {
  readonly servers: number;
  readonly quorum: number;
  /** This round's value: no other round has it. */
  readonly value: string;
  /** How many tokens. */
  readonly count: number;
  /** The token must exceed this; 0 for any. */
  readonly above: bigint;
  /** When it is too late to believe in the grant, by the clock of the inputs' `at`. */
  readonly deadline: number;
}

/** Where one server stands in a round. */
type Vote =
  | { readonly kind: "asked" }
  /** It has the lock for us. `counts`: its number is not above the token, so its word on the write-back does. */
  | {
      readonly kind: "taken" | "writing" | "confirmed";
      readonly hold: Hold;
      readonly counts: boolean;
    }
  /** It said no, or that the tenure is another one by now. */
  | { readonly kind: "refused" }
  /** Nothing is known. `stray`: there may be a tenure of this value, now or when a late packet arrives. */
  | { readonly kind: "silent"; readonly stray: boolean; readonly value: string };

/** Why a round came to nothing: others are in the way, too few servers, too late, or no number left. */
export type Failure = "refused" | "silent" | "late" | "used-up";

/** A round so far. */
export interface Round {
  readonly terms: RoundTerms;
  readonly phase: "taking" | "writing" | "granted" | "failed";
  readonly votes: readonly Vote[];
  /** The first token, from the moment that a quorum had the lock. */
  readonly token: bigint | null;
}

/** What was heard of one server, at a moment of the holder's clock. */
export type RoundInput =
  | { readonly kind: "took"; readonly server: number; readonly hold: Hold; readonly at: number }
  | { readonly kind: "refused"; readonly server: number; readonly at: number }
  /** The answer to a write-back. */
  | {
      readonly kind: "wrote";
      readonly server: number;
      readonly matched: boolean;
      readonly at: number;
    }
  | {
      readonly kind: "silent";
      readonly server: number;
      readonly stray: boolean;
      readonly at: number;
    };

/** What is to be done now. */
export type RoundOutput =
  | {
      readonly kind: "write-back";
      readonly server: number;
      readonly hold: Hold;
      readonly token: bigint;
    }
  /** Ends the tenure of this value. `stray`: a late packet must not begin it again. */
  | {
      readonly kind: "undo";
      readonly server: number;
      readonly value: string;
      readonly stray: boolean;
    }
  | { readonly kind: "granted"; readonly token: bigint }
  | { readonly kind: "failed"; readonly why: Failure };

/** What a step leads to. */
interface Step<S, O> {
  readonly next: S;
  readonly outputs: readonly O[];
}

/** A round in which every server was just asked. */
export function newRound(terms: RoundTerms): Round {
  const votes = new Array<Vote>(terms.servers).fill({ kind: "asked" });
  return { terms, phase: "taking", votes, token: null };
}

/** How many votes are of one of these kinds. */
export function countVotes(round: Round, ...kinds: readonly Vote["kind"][]): number {
  return round.votes.filter(({ kind }) => kinds.includes(kind)).length;
}

/** Takes in what was heard. An answer that came twice, or too late to matter, changes nothing. */
export function stepRound(round: Round, input: RoundInput): Step<Round, RoundOutput> {
  const heard = hear(round, input);
  if (heard === null) return { next: round, outputs: [] };
  const { vote, outputs } = heard;
  const votes = round.votes.with(input.server, vote);
  return conclude({ ...round, votes }, outputs, input.at);
}

/** The server's new vote and what answers it at once; `null` when it is no news. */
function hear(
  round: Round,
  input: RoundInput,
): { readonly vote: Vote; readonly outputs: readonly RoundOutput[] } | null {
  const { server } = input;
  const vote = round.votes[server];
  if (vote === undefined) return null;
  switch (input.kind) {
    case "took":
      return vote.kind === "asked" || vote.kind === "silent"
        ? took(round, server, input.hold)
        : null;
    case "refused":
      return vote.kind === "asked" || vote.kind === "silent"
        ? { vote: { kind: "refused" }, outputs: [] }
        : null;
    case "wrote": {
      if (vote.kind !== "writing") return null;
      const { hold, counts } = vote;
      return input.matched
        ? { vote: { kind: "confirmed", hold, counts }, outputs: [] }
        : { vote: { kind: "refused" }, outputs: [] };
    }
    case "silent":
      return silent(round, server, vote, input.stray);
  }
}

function took(
  round: Round,
  server: number,
  hold: Hold,
): { readonly vote: Vote; readonly outputs: readonly RoundOutput[] } {
  const { phase, token } = round;
  if (phase === "failed")
    return {
      vote: { kind: "refused" },
      outputs: [{ kind: "undo", server, value: hold.value, stray: false }],
    };
  if (token === null) return { vote: { kind: "taken", hold, counts: true }, outputs: [] };
  // Late, when the token is settled: its word counts only where the token exceeds what is minted there from now on.
  return {
    vote: { kind: "writing", hold, counts: hold.counter <= token },
    outputs: [{ kind: "write-back", server, hold, token }],
  };
}

function silent(
  round: Round,
  server: number,
  vote: Vote,
  stray: boolean,
): { readonly vote: Vote; readonly outputs: readonly RoundOutput[] } | null {
  if (vote.kind !== "asked" && vote.kind !== "writing") return null;
  // What was taken may still be there, whatever became of the write-back.
  const left = stray || vote.kind === "writing";
  const value = vote.kind === "writing" ? vote.hold.value : round.terms.value;
  const outputs: RoundOutput[] =
    round.phase === "failed" && left ? [{ kind: "undo", server, value, stray: true }] : [];
  return { vote: { kind: "silent", stray: left, value }, outputs };
}

/** Whether the votes decide the round, and what follows. */
function conclude(
  round: Round,
  outputs: readonly RoundOutput[],
  at: number,
): Step<Round, RoundOutput> {
  const { terms, phase } = round;
  if (phase === "granted" || phase === "failed") return { next: round, outputs };
  // The clock is read again whenever answers are there: they may have waited for longer than the ttl.
  if (at >= terms.deadline) return fail(round, outputs, "late");
  const spare = terms.servers - terms.quorum;
  if (phase === "taking") {
    const taken = countVotes(round, "taken");
    if (taken >= terms.quorum) return settle(round, outputs);
    const lost = countVotes(round, "silent");
    const refused = countVotes(round, "refused");
    if (lost > spare) return fail(round, outputs, "silent");
    if (refused + lost > spare && taken + refused >= terms.quorum)
      return fail(round, outputs, "refused");
    return { next: round, outputs };
  }
  const confirmed = round.votes.filter((vote) => vote.kind === "confirmed" && vote.counts).length;
  if (confirmed >= terms.quorum && round.token !== null)
    return {
      next: { ...round, phase: "granted" },
      outputs: [...outputs, { kind: "granted", token: round.token }],
    };
  const open = round.votes.filter(
    (vote) => vote.kind === "asked" || (vote.kind === "writing" && vote.counts),
  ).length;
  if (confirmed + open >= terms.quorum) return { next: round, outputs };
  return fail(round, outputs, countVotes(round, "silent") > spare ? "silent" : "refused");
}

/** A quorum has the lock: the token is the largest number, and is written back to whoever has it. */
function settle(round: Round, before: readonly RoundOutput[]): Step<Round, RoundOutput> {
  const { above, count } = round.terms;
  let token = above + 1n;
  for (const vote of round.votes)
    if (vote.kind === "taken" && vote.hold.counter > token) token = vote.hold.counter;
  if (token + BigInt(count) - 1n > MAX_TOKEN) return fail(round, before, "used-up");
  const outputs = [...before];
  const votes = round.votes.map((vote, server): Vote => {
    if (vote.kind !== "taken") return vote;
    outputs.push({ kind: "write-back", server, hold: vote.hold, token });
    return { kind: "writing", hold: vote.hold, counts: true };
  });
  return { next: { ...round, phase: "writing", votes, token }, outputs };
}

/** Releases everywhere: where we have the lock, and where we may have it. What still comes is undone when it comes. */
function fail(
  round: Round,
  before: readonly RoundOutput[],
  why: Failure,
): Step<Round, RoundOutput> {
  const undos = round.votes.flatMap((vote, server): RoundOutput[] => {
    if (vote.kind === "silent")
      return vote.stray ? [{ kind: "undo", server, value: vote.value, stray: true }] : [];
    if (vote.kind === "asked" || vote.kind === "refused") return [];
    return [{ kind: "undo", server, value: vote.hold.value, stray: false }];
  });
  return {
    next: { ...round, phase: "failed" },
    outputs: [...before, ...undos, { kind: "failed", why }],
  };
}
