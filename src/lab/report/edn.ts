import type { Ev } from "../history.ts";

/** Operations of clients have a process number; everything else is the nemesis'. */
const CLIENT_OPS: ReadonlySet<string> = new Set([
  "acquire",
  "renew",
  "release",
  "claim",
  "read",
  "write",
  "effect",
]);

const VALUES = [
  "op",
  "lock",
  "grant",
  "token",
  "mode",
  "permits",
  "ttl",
  "lockDelay",
  "deadline",
  "res",
  "ver",
  "from",
  "idem",
  "body",
  "accepted",
  "clock",
  "path",
  "err",
  "rate",
] as const satisfies readonly (keyof Ev)[];

/**
 * A history as Jepsen writes it: one operation map a line. Each incarnation of a client is a process of its own, as
 * Jepsen's are; steps of the server and faults are `:info` of the nemesis.
 */
export function* toEdn(history: Iterable<Ev>): Generator<string> {
  const processes = new Map<string, number>();
  for (const event of history) {
    const { i, t, p, inc, k, f } = event;
    const isCall = CLIENT_OPS.has(f) && k !== "event";
    const who = `${inc} ${p}`;
    if (isCall && !processes.has(who)) processes.set(who, processes.size);
    const process = isCall ? String(processes.get(who)) : ":nemesis";
    const facts = VALUES.flatMap((key) => {
      const value = event[key];
      return value === undefined ? [] : [`:${kebab(key)} ${edn(value)}`];
    });
    const value = `{${[`:client ${edn(p)}`, ...facts].join(", ")}}`;
    // Clojure reads `held?` and `srv.grant` as keywords just so.
    yield `{:index ${i}, :time ${edn(t)}, :process ${process}, :type :${isCall ? k : "info"}, :f :${f}, :value ${value}}\n`;
  }
}

function edn(value: string | number | bigint | boolean): string {
  if (typeof value === "string")
    return `"${value.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t")}"`;
  if (value === Infinity) return "##Inf";
  return String(value);
}

function kebab(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
