import { type Columns, codeOf, FLAG } from "../columns.ts";

/** What a sweep found: the first row that breaks each property, -1 for none. */
export interface Swept {
  readonly P1: number;
  readonly P3: number;
  readonly P5: number;
  /** The history has what only the full checkers can judge: clocks that run unevenly, leases that are not exclusive, renewals after a successor. */
  readonly beyond: boolean;
}

const ACQUIRED = codeOf("acquire", "ok");
const RENEWED = codeOf("renew", "ok");
const LETS_GO = codeOf("release", "invoke");
const RELEASED = codeOf("release", "ok");
const LOST = codeOf("lost", "event");
const REVOKED = codeOf("revoke", "event");
const CLAIM = codeOf("claim", "event");
const WRITE = codeOf("write", "event");
const CLAIM_ANSWER = codeOf("claim", "ok");
const WRITE_ANSWER = codeOf("write", "ok");

/**
 * P1, P3 and P5 (tokens in the order of answers) in one sweep over columns: the filter for soaks. It says where to look;
 * the full checkers then say what is wrong, with a witness. For histories whose resources record where actions take
 * place (`event`) the answers of those actions must not be in the columns.
 */
export function sweep(columns: Columns, epsilonNs = 0): Swept {
  const { length, code, t, until, lock, grant, res, high, low, flags, locks, resources } = columns;
  const holder = new Uint32Array(locks);
  /** One grant may carry several leases: a process hands on inside itself. The token tells them apart. */
  const heldLow = new Uint32Array(locks);
  const end = new Float64Array(locks);
  const tokenHigh = new Uint32Array(locks);
  const tokenLow = new Uint32Array(locks);
  const fenceHigh = new Uint32Array(resources);
  const fenceLow = new Uint32Array(resources);
  const fenceGrant = new Uint32Array(resources);
  let P1 = -1;
  let P3 = -1;
  let P5 = -1;
  let seen = 0;
  for (let n = 0; n < length; n += 1) {
    const l = lock[n] ?? 0;
    const g = grant[n] ?? 0;
    const h = high[n] ?? 0;
    const w = low[n] ?? 0;
    const flag = flags[n] ?? 0;
    seen |= flag;
    switch (code[n] ?? 0) {
      case ACQUIRED: {
        const th = tokenHigh[l] ?? 0;
        const tw = tokenLow[l] ?? 0;
        const same = holder[l] === g && heldLow[l] === w;
        if (!same && holder[l] !== 0 && (end[l] ?? 0) - epsilonNs > (t[n] ?? 0) && P1 < 0) P1 = n;
        if (h > th || (h === th && w > tw)) {
          tokenHigh[l] = h;
          tokenLow[l] = w;
        } else if ((h | w) !== 0 && P5 < 0 && !(same && h === th && w === tw)) P5 = n;
        holder[l] = g;
        heldLow[l] = w;
        end[l] = until[n] ?? 0;
        break;
      }
      case RENEWED:
        if (holder[l] === g && heldLow[l] === w) end[l] = until[n] ?? 0;
        // A renewal of somebody who came before the last holder: its belief is not followed here.
        else seen |= FLAG.ownClock;
        break;
      case LETS_GO:
      case RELEASED:
      case LOST:
      case REVOKED:
        if (holder[l] === g && (heldLow[l] === w || (h | w) === 0)) end[l] = 0;
        break;
      case CLAIM:
      case WRITE:
      case CLAIM_ANSWER:
      case WRITE_ANSWER: {
        if ((flag & FLAG.accepted) === 0 || (h | w) === 0) break;
        const r = res[n] ?? 0;
        const fh = fenceHigh[r] ?? 0;
        const fw = fenceLow[r] ?? 0;
        if (h > fh || (h === fh && w > fw)) {
          fenceHigh[r] = h;
          fenceLow[r] = w;
          fenceGrant[r] = g;
        } else if (P3 < 0 && (h !== fh || w !== fw || fenceGrant[r] !== g)) P3 = n;
        break;
      }
      default:
    }
  }
  return { P1, P3, P5, beyond: (seen & (FLAG.notExclusive | FLAG.ownClock)) !== 0 };
}
