import type { Picks } from "../sim/choices.ts";
import { type Case, type Found, runAgain } from "./search.ts";
import type { Subject, Trial } from "./subjects.ts";

/** One decision that is not the harmless one. */
interface Mark {
  readonly site: string;
  readonly index: number;
  readonly picked: number;
}

/** Faults first, then what clients do, then delays. */
function rank({ site }: Mark): number {
  return site.startsWith("fault") ? 0 : site.startsWith("client") ? 1 : 2;
}

/**
 * Takes away from a violation what it does not need: ever smaller groups of decisions become harmless, and what is left
 * becomes as small as it may, as long as the same property breaks. At most `maxRuns` runs.
 */
export async function shrink(subject: Subject, found: Found, maxRuns = 600): Promise<Found> {
  const property = found.trial.broken[0]?.property;
  let best = found;
  let runs = 0;
  const attempt = async (marks: readonly Mark[]): Promise<boolean> => {
    if (runs >= maxRuns) return false;
    runs += 1;
    const next: Case = { ...best.case, picks: picksFrom(marks) };
    const trial: Trial = await runAgain(subject, next);
    if (!trial.broken.some((verdict) => verdict.property === property)) return false;
    best = { case: next, trial };
    return true;
  };
  let marks = marksOf(found.case.picks ?? new Map<string, number[]>()).sort(
    (a, b) => rank(a) - rank(b),
  );
  if (!(await attempt(marks))) return found;
  for (
    let size = Math.ceil(marks.length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  ) {
    for (let at = 0; at < marks.length; ) {
      const fewer = [...marks.slice(0, at), ...marks.slice(at + size)];
      if (await attempt(fewer)) marks = fewer;
      else at += size;
    }
  }
  for (let at = 0; at < marks.length; at += 1)
    for (let picked = 1; picked < (marks[at]?.picked ?? 0); picked += 1) {
      const lower = marks.map((mark, i) => (i === at ? { ...mark, picked } : mark));
      if (!(await attempt(lower))) continue;
      marks = lower;
      break;
    }
  return best;
}

function marksOf(picks: Picks): Mark[] {
  const marks: Mark[] = [];
  for (const [site, stream] of picks)
    stream.forEach((picked, index) => {
      if (picked !== 0) marks.push({ site, index, picked });
    });
  return marks;
}

function picksFrom(marks: readonly Mark[]): Map<string, number[]> {
  const picks = new Map<string, number[]>();
  for (const { site, index, picked } of marks) {
    const stream = picks.get(site) ?? [];
    while (stream.length <= index) stream.push(0);
    stream[index] = picked;
    picks.set(site, stream);
  }
  return picks;
}
