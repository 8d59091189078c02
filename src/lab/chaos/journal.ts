import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { systemClock } from "../../runtime/system-clock.ts";
import type { ClientProcess, ClientWorld } from "../clients/client.ts";
import type { Ev, EvKind, EvOp, NewEv } from "../history.ts";
import { eventLine, readEvent, readObject } from "../ndjson.ts";
import type { Facts } from "../sim/probe.ts";

const NS = 1e6;

/**
 * Writes what a real process does and sees into a file of its own, each event at once, so that what a killed process saw
 * is not lost. Times are the host's monotonic clock, which all processes share.
 */
export class Journal implements ClientWorld {
  readonly probe: ClientWorld["probe"];
  readonly #file: number;
  #ops: number;

  constructor(file: string, ops: number) {
    this.#file = openSync(file, "a");
    this.#ops = ops;
    this.probe = {
      op: () => {
        this.#ops += 1;
        return this.#ops;
      },
      ev: (who, k, f, facts) => {
        this.write(eventOf(who, k, f, facts));
      },
    };
  }

  write(event: NewEv): void {
    writeSync(this.#file, eventLine({ ...event, i: 0, inc: event.inc ?? 0 }));
  }

  /** Something that was done to the world. */
  world(f: EvOp, p: string, err?: string): void {
    this.write({ t: now(), p, k: "event", f, ...(err === undefined ? {} : { err }) });
  }

  /** An operator freed a grant. */
  revoked(p: string, lock: string, grant: string): void {
    this.write({ t: now(), p, k: "event", f: "revoke", lock, grant });
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** The host's monotonic clock in whole nanoseconds. */
function now(): number {
  return Math.round(systemClock.mono() * NS);
}

/** An event of a real process, now. */
export function eventOf(
  who: Pick<ClientProcess, "name" | "incarnation">,
  k: EvKind,
  f: EvOp,
  { ttlMs, lockDelayMs, remainingMs, ...rest }: Facts = {},
): NewEv {
  const t = now();
  const known = Object.entries(rest).filter(([, value]) => value !== undefined);
  return {
    ...(Object.fromEntries(known) as typeof rest),
    t,
    p: who.name,
    inc: who.incarnation,
    k,
    f,
    ...(ttlMs === undefined ? {} : { ttl: Math.round(ttlMs * NS) }),
    ...(lockDelayMs === undefined ? {} : { lockDelay: Math.round(lockDelayMs * NS) }),
    ...(remainingMs === undefined ? {} : { deadline: Math.round(t + remainingMs * NS) }),
  };
}

/** What a process has written down so far; with `f` of that kind alone. */
export function eventsIn(file: string, f?: EvOp): Ev[] {
  const lines = readFileSync(file, "utf8").split("\n");
  // A killed process may have left half a line, and a live one writes its next.
  lines.pop();
  const events: Ev[] = [];
  // Most lines need not be read for that.
  for (const [i, text] of lines.entries())
    if (f === undefined || text.includes(`"${f}"`))
      events.push(readEvent(readObject(text, i + 1), i + 1));
  return f === undefined ? events : events.filter((event) => event.f === f);
}
