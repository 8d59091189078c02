/** What a command of a lock client to a Redis is called, by the simulator and by the proxies before real servers. */
import { createHash } from "node:crypto";
import { GIVE_BACK, QUICK, TAKE } from "../../drivers/redis/quick-scripts.ts";
import {
  ATTEMPT,
  EXCHANGE,
  IN_USE,
  INSPECT,
  RELEASE,
  RENEW,
  RENEW_ASIDE,
  REVOKE,
} from "../../drivers/redis/scripts.ts";
import * as redlock from "../../drivers/redlock/scripts.ts";
import { SCRIPTS } from "./redis-state.ts";

/** The Redis driver's scripts. */
const STATEMENTS = [
  ...[TAKE, GIVE_BACK, QUICK, ATTEMPT, RENEW, RENEW_ASIDE, RELEASE, REVOKE],
  ...[EXCHANGE, INSPECT, IN_USE],
];

export function hashOf(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}

const HASHES: ReadonlyMap<string, string> = new Map(
  STATEMENTS.map(({ name, text }) => [hashOf(text), name]),
);

export const SCRIPT_HASHES: readonly string[] = [...HASHES.keys()];

/** The name of the Redis driver's script with this hash. */
export function scriptOf(hash: string): string | undefined {
  return HASHES.get(hash);
}

/** Quick steps of the Redis driver, which are called as what they do. Redlock's own `take` is another script. */
const CALLED: ReadonlyMap<string, string> = new Map([
  [TAKE.text, ATTEMPT.name],
  [GIVE_BACK.text, RELEASE.name],
]);

const NAMES: ReadonlyMap<string, string> = new Map([
  ...Object.entries(SCRIPTS).map(([name, text]) => [text, name] as const),
  ...[
    ...STATEMENTS,
    ...[redlock.TAKE, redlock.WRITE_BACK, redlock.UNDO, redlock.EXTEND, redlock.RELEASE],
  ].flatMap(({ name, text }): [string, string][] => {
    const called = CALLED.get(text) ?? name;
    return [
      [text, called],
      [hashOf(text), called],
    ];
  }),
]);

/** `SET`, `attempt`, `release`: the command, or the script that it runs. */
export function commandName(command: readonly unknown[]): string {
  const name = String(command[0]).toUpperCase();
  if (name !== "EVAL" && name !== "EVALSHA") return name;
  const script = NAMES.get(String(command[1])) ?? name;
  if (script !== QUICK.name) return script;
  // It gives back some names and takes others: what it takes counts.
  const keys = Number(command[2]);
  return Number(command[3 + keys]) === keys ? RELEASE.name : ATTEMPT.name;
}
