import { type Lease, World } from "../checkers/world.ts";
import type { Ev } from "../history.ts";

/** A belief as a bar: from the answer of acquire to the deadline, or to what ended it before. */
interface Bar {
  readonly lease: Lease;
  readonly from: number;
  readonly to: number;
}

/** A client standing still, or dead. */
interface Absence {
  readonly p: string;
  readonly kind: "paused" | "dead";
  readonly from: number;
  readonly to: number;
}

/** What the timeline draws. */
export interface Layout {
  readonly events: readonly Ev[];
  readonly clients: readonly string[];
  readonly resources: readonly string[];
  readonly bars: readonly Bar[];
  readonly absences: readonly Absence[];
  /** Events with a mark of their own: where actions took place, notices, faults. */
  readonly marks: readonly Ev[];
  /** Pixels from the left for a time. */
  readonly x: (t: number) => number;
  readonly width: number;
  readonly from: number;
  readonly to: number;
}

/** Pixels for a gap: every step is visible, a long one does not push the others together. */
const STEP_PX = 8;
const DOUBLE_PX = 9;
/** A short history is drawn this wide all the same. */
const LEAST_PX = 900;

/** Computes what stands where. */
export function layoutOf(events: readonly Ev[]): Layout {
  const world = new World();
  const clients = new Set<string>();
  const resources = new Set<string>();
  const leases = new Set<Lease>();
  const marks: Ev[] = [];
  for (const event of events) {
    world.step(event);
    const { f, p, res } = event;
    if (f !== "heal" && f !== "fault.net") clients.add(p);
    if (res !== undefined) resources.add(res);
    if (f === "acquire" && event.k === "ok" && world.lease !== undefined) leases.add(world.lease);
    if (world.lands || isMarked(event)) marks.push(event);
  }
  const from = events[0]?.t ?? 0;
  const to = events.at(-1)?.t ?? from;
  const bars = [...leases].map((lease) => {
    const start = lease.acquired.t;
    return { lease, from: start, to: Math.max(start, Math.min(to, world.endOf(lease))) };
  });
  const { x, width } = scaleOf([...events.map(({ t }) => t), ...bars.map((bar) => bar.to)]);
  return {
    events,
    clients: [...clients],
    resources: [...resources],
    bars,
    absences: absencesIn(events, to),
    marks,
    x,
    width,
    from,
    to,
  };
}

function isMarked({ f, k }: Ev): boolean {
  if (f.startsWith("fault.") || f === "heal" || f === "revoke") return true;
  if (f === "lost" || f === "srv.expire" || f === "wakeup") return true;
  return (f === "release" && k === "invoke") || (k === "info" && f !== "held?");
}

function absencesIn(events: readonly Ev[], end: number): readonly Absence[] {
  const absences: Absence[] = [];
  const since = new Map<string, Ev>();
  for (const event of events) {
    const { f, p, t } = event;
    if (f === "fault.pause" || f === "fault.kill") {
      close(p, t);
      since.set(p, event);
    } else if (f === "fault.resume" || f === "fault.start") close(p, t);
  }
  for (const p of [...since.keys()]) close(p, end);
  return absences;

  function close(p: string, to: number): void {
    const start = since.get(p);
    since.delete(p);
    if (start === undefined) return;
    absences.push({ p, kind: start.f === "fault.kill" ? "dead" : "paused", from: start.t, to });
  }
}

/** A scale on which each gap is as wide as the logarithm of its length. */
function scaleOf(times: readonly number[]): { x: (t: number) => number; width: number } {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((t, n) => t - (sorted[n] ?? t));
  const usual = [...gaps].sort((a, b) => a - b)[gaps.length >> 1] ?? 1;
  const at = [0];
  for (const [n, gap] of gaps.entries())
    at.push((at[n] ?? 0) + STEP_PX + DOUBLE_PX * Math.log2(1 + gap / usual));
  const x = (t: number): number => {
    let [low, high] = [0, sorted.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((sorted[middle] ?? 0) <= t) low = middle;
      else high = middle - 1;
    }
    const [start, end] = [sorted[low] ?? t, sorted[low + 1] ?? t];
    const [left, right] = [at[low] ?? 0, at[low + 1] ?? at[low] ?? 0];
    const part = end > start ? Math.min(1, Math.max(0, (t - start) / (end - start))) : 0;
    return left + part * (right - left);
  };
  const natural = at.at(-1) ?? 0;
  const stretch = natural > 0 ? Math.max(1, LEAST_PX / natural) : 1;
  return { x: (t) => x(t) * stretch, width: natural * stretch };
}
