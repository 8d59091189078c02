/** What the Redis driver's scripts did at a server, as the checkers read it. */
import type { Ask, Granted, GrantRef } from "../../core/driver.ts";
import { decodeName } from "../../core/lock-name.ts";
import { answerOf, exchangedOf, quicklyGranted } from "../../drivers/redis/replies.ts";
import { readTake, type ScriptCall } from "./redis-lock-scripts.ts";
import type { ServerTrace } from "./trace.ts";

const MODES = { e: "exclusive", s: "shared", p: "permits" } as const;
const RENEWED = [{ kind: "renewed", ttlMs: 0 }] as const;
const RELEASED = [{ kind: "released" }] as const;

/** The lock's name in the common beginning of its keys. */
export function lockOf(base: string): string {
  return decodeName(/\{(.*)\}:$/.exec(base)?.[1] ?? "");
}

function nameIn(key = ""): string {
  return lockOf(key.slice(0, -1));
}

/** `lateMs`: how far the server's clock is into its millisecond, which every end of a lease leaves out. */
export function traceScript(
  trace: ServerTrace,
  call: ScriptCall,
  reply: unknown,
  lateMs: number,
): void {
  const { keys, args } = call;
  const cells = Array.isArray(reply) ? (reply as readonly (string | number)[]) : [];
  const refOf = (
    key: string | undefined,
    id = "",
    ttl: string | number = 0,
    delay: string | number = 0,
  ): GrantRef => ({
    name: nameIn(key),
    mode: "exclusive",
    grantId: id,
    ttlMs: Number(ttl) - lateMs,
    lockDelayMs: Number(delay),
  });
  const askOf = (ref: GrantRef, more: Partial<Ask> = {}): Ask => ({
    ...ref,
    permits: 1,
    holder: "",
    tokens: 1,
    join: "no",
    ...more,
  });
  switch (call.name) {
    case "take":
    case "give-back":
    case "quick":
      traceQuick(call, reply, {
        back: (key, id) => {
          trace.released([refOf(key, id)], RELEASED);
        },
        taken: (key, { id, ttlMs, delayMs }, granted) => {
          trace.attempted(askOf(refOf(key, id, ttlMs, delayMs)), granted);
        },
      });
      return;
    case "attempt": {
      const [id, mode = "e", permits, ttl, delay] = args;
      const ref = { ...refOf(keys[0], id, ttl, delay), mode: MODES[mode as "e" | "s" | "p"] };
      // None left: nothing was granted.
      if (cells[0] !== 4)
        trace.attempted(askOf(ref, { permits: Number(permits) }), answerOf(cells, true));
      return;
    }
    case "exchange": {
      const [, id, ttl, delay] = args;
      if (cells[0] === 4) return;
      const answer = exchangedOf(cells, true);
      if (answer.kind === "granted") trace.attempted(askOf(refOf(keys[0], id, ttl, delay)), answer);
      return;
    }
    case "renew":
      for (const [i, key] of keys.entries())
        if (cells[i] === 1) trace.renewed([refOf(key, ...args.slice(3 * i, 3 * i + 3))], RENEWED);
      return;
    case "renew-aside":
      if (cells[0] === 1) trace.renewed([refOf(keys[0], ...args)], RENEWED);
      return;
    case "release":
      if (cells[0] === 1) trace.released([refOf(keys[0], args[0])], RELEASED);
      return;
    case "revoke":
      if (cells[0] === 1) trace.revoked(refOf(keys[0], args[0]), { kind: "released" });
  }
}

/** Those that give back and take what nobody else wants, one or several. */
function traceQuick(
  { name, keys, args }: ScriptCall,
  reply: unknown,
  tell: {
    back(key: string | undefined, id: string | undefined): void;
    taken(key: string | undefined, lease: ReturnType<typeof readTake>, granted: Granted): void;
  },
): void {
  const taken = (at: number, token?: string | number, before?: string | number): void => {
    const lease = readTake(args[name === "quick" ? at + 1 : at]);
    const granted = quicklyGranted(token, before, lease.ttlMs, true);
    if (granted !== undefined) tell.taken(keys[at], lease, granted);
  };
  if (name === "give-back") {
    if (reply === 1) tell.back(keys[0], args[0]);
  } else if (name === "take") taken(0, ...(typeof reply === "string" ? reply.split("|") : []));
  else {
    const [token, ...cells] = reply as readonly (string | number)[];
    for (const [i, cell] of cells.entries())
      if (i >= Number(args[0])) taken(i, token, cell);
      else if (cell === 1) tell.back(keys[i], args[i + 1]);
  }
}
