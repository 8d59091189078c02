/** What a manager's `history: { file }` option records, in the form that the checkers read. */
import type { LockEvent } from "../core/events.ts";
import type { NewEv } from "./history.ts";
import { HistoryFormatError, readToken } from "./ndjson.ts";

/** Where and when something was recorded. */
interface Stamp {
  readonly t: number;
  readonly p: string;
  readonly inc?: number;
  readonly clock?: string | undefined;
  /** From the clock of `monoMs` to the one of `t`: added to deadlines. Default 0. */
  readonly shiftMs?: number;
}

/**
 * One event of a manager; `undefined` when it says nothing that is judged (jeopardy, notes while waiting).
 * `lt` is the event's own `monoMs`.
 */
function fromLockEvent(event: LockEvent, stamp: Stamp): NewEv | undefined {
  const { t, p, inc, clock, shiftMs = 0 } = stamp;
  const common = {
    t,
    p,
    lt: (event.monoMs + shiftMs) * 1e6,
    lock: event.name,
    ...(inc === undefined ? {} : { inc }),
    ...(clock === undefined ? {} : { clock }),
  };
  if (event.type === "revoked")
    return { ...common, k: "event", f: "revoke", grant: event.grantId, err: event.reason };
  if (!("grantId" in event)) return undefined;
  const { grantId, token, mode } = event;
  const ofGrant = { ...common, grant: grantId, mode, ...(token === null ? {} : { token }) };
  switch (event.type) {
    case "acquired":
      return {
        ...ofGrant,
        k: "ok",
        f: "acquire",
        deadline: (event.deadlineMs + shiftMs) * 1e6,
        ...(mode === "permits" ? { permits: event.permits } : {}),
      };
    case "renewed":
      return { ...ofGrant, k: "ok", f: "renew", deadline: (event.deadlineMs + shiftMs) * 1e6 };
    case "releasing":
      return { ...ofGrant, k: "invoke", f: "release" };
    case "released":
      return { ...ofGrant, k: "ok", f: "release" };
    case "lost":
      return { ...ofGrant, k: "event", f: "lost", err: event.reason };
    case "jeopardy":
    case "safe":
      return undefined;
  }
}

/** What stands beside an event in a history file. */
interface Recorded {
  readonly pid: number;
  readonly process: string;
  readonly atMs: number;
  readonly monoMs: number;
}

/** Clocks that agree within this come from one boot of one host. */
const SAME_BOOT_MS = 2000;
const TYPES: Readonly<Record<LockEvent["type"], readonly string[]>> = {
  requested: [],
  acquired: ["grantId", "mode", "deadlineMs"],
  releasing: ["grantId", "mode"],
  released: ["grantId", "mode"],
  renewed: ["grantId", "mode", "deadlineMs"],
  lost: ["grantId", "mode"],
  jeopardy: [],
  safe: [],
  waiting: [],
  revoked: ["grantId"],
  refused: [],
};

/**
 * Reads the lines of a history file. One file may hold several processes, whose lines mix, and several boots: each boot
 * has its own monotonic clock, and they are put one after another by the wall clock.
 */
export class LockEventReader {
  /** Events that the recorder had to drop. */
  dropped = 0;
  readonly #shifts = new Map<string, { readonly shiftMs: number; readonly clock: string }>();
  readonly #boots: { readonly offsetMs: number; readonly clock: string }[] = [];

  /** @throws HistoryFormatError */
  read(object: Readonly<Record<string, unknown>>, line: number): NewEv | undefined {
    const { type } = object;
    if (type === "dropped") {
      this.dropped += typeof object["count"] === "number" ? object["count"] : 1;
      return undefined;
    }
    if (typeof type !== "string" || !Object.hasOwn(TYPES, type))
      throw new HistoryFormatError(line, `unknown type of event: ${JSON.stringify(type)}`);
    const { pid, process, atMs, monoMs } = recordedOf(object, line);
    for (const field of TYPES[type as LockEvent["type"]]) {
      const wanted = field.endsWith("Ms") ? "number" : "string";
      if (typeof object[field] !== wanted)
        throw new HistoryFormatError(line, `"${field}" of "${type}" is not a ${wanted}`);
    }
    const { token } = object;
    const event = {
      ...object,
      token: token === null || token === undefined ? null : readToken(token, line),
    };
    const { shiftMs, clock } = this.#shiftOf(process, atMs - monoMs);
    return fromLockEvent(event as unknown as LockEvent, {
      t: (monoMs + shiftMs) * 1e6,
      p: `${pid}.${process.slice(-4)}`,
      clock,
      shiftMs,
    });
  }

  #shiftOf(process: string, offsetMs: number): { shiftMs: number; clock: string } {
    const known = this.#shifts.get(process);
    if (known !== undefined) return known;
    let boot = this.#boots.find((other) => Math.abs(other.offsetMs - offsetMs) <= SAME_BOOT_MS);
    if (boot === undefined) {
      boot = { offsetMs, clock: String(this.#boots.length + 1) };
      this.#boots.push(boot);
    }
    const first = this.#boots[0]?.offsetMs ?? offsetMs;
    const shift = { shiftMs: boot.offsetMs - first, clock: boot.clock };
    this.#shifts.set(process, shift);
    return shift;
  }
}

function recordedOf(object: Readonly<Record<string, unknown>>, line: number): Recorded {
  const { pid, process, atMs, monoMs, name } = object;
  if (typeof process !== "string" || typeof pid !== "number" || typeof name !== "string")
    throw new HistoryFormatError(line, `"pid", "process" or "name" is missing`);
  if (!isTime(atMs) || !isTime(monoMs))
    throw new HistoryFormatError(line, `"atMs" or "monoMs" is not a number`);
  return { pid, process, atMs, monoMs };
}

function isTime(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
