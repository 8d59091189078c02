/** One write that the resource accepted, in the order in which it did. */
export interface AcceptedWrite {
  /** The version that its writer had read. */
  readonly basedOn: string;
  /** The version that it left; no two are alike. */
  readonly version: string;
  readonly token: bigint;
  readonly grantId: string;
}

/** What a history of accepted writes proves. */
export interface Verdict {
  /** Writes based on another version than the one that the write before had left: an update in between is lost. */
  readonly lostUpdates: number;
  /** Writes of a holder after one with a larger token, or with the same token under another grant, had written. */
  readonly staleWrites: number;
  /** The first of either, as a sentence. */
  readonly witness: string | null;
}

/** Checks isolation and fence order over a recorded history, without looking at the final state. */
export function checkAccepted(first: string, writes: readonly AcceptedWrite[]): Verdict {
  let [lostUpdates, staleWrites] = [0, 0];
  let witness: string | null = null;
  let version = first;
  let highest: AcceptedWrite | null = null;
  for (const write of writes) {
    if (write.basedOn !== version) {
      lostUpdates += 1;
      witness ??= `${write.version} (token ${write.token.toString()}) was based on ${write.basedOn}, but ${version} had been accepted since`;
    }
    const stale: boolean =
      highest !== null &&
      (write.token < highest.token ||
        (write.token === highest.token && write.grantId !== highest.grantId));
    if (stale) {
      staleWrites += 1;
      witness ??= `${write.version} (token ${write.token.toString()}) was accepted after token ${String(highest?.token)} had written`;
    } else highest = write;
    version = write.version;
  }
  return { lostUpdates, staleWrites, witness };
}
