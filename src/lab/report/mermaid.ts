import { span } from "../checkers/words.ts";
import type { Ev } from "../history.ts";

/** More arrows than this nobody reads. */
const MAX_EVENTS = 200;

/** A history as a Mermaid sequence diagram: clients, locks, resources; at most 200 events. */
export function toMermaid(history: Iterable<Ev>): string {
  const ids = new Map<string, string>();
  const participants: string[] = [];
  const lines: string[] = [];
  const idOf = (kind: string, name: string): string => {
    const known = ids.get(`${kind} ${name}`);
    if (known !== undefined) return known;
    const id = `${kind}${ids.size + 1}`;
    ids.set(`${kind} ${name}`, id);
    const shape = kind === "C" ? "actor" : "participant";
    participants.push(`  ${shape} ${id} as ${escape(name)}`);
    return id;
  };
  let origin: number | undefined;
  let left = MAX_EVENTS;
  for (const event of history) {
    origin ??= event.t;
    const line = lineOf(event, idOf, origin);
    if (line === undefined) continue;
    left -= 1;
    if (left < 0) {
      const over = [...ids.values()][0] ?? idOf("C", event.p);
      lines.push(`  Note over ${over}: and more`);
      break;
    }
    lines.push(`  ${line}`);
  }
  return ["sequenceDiagram", ...participants, ...lines, ""].join("\n");
}

function lineOf(
  event: Ev,
  idOf: (kind: string, name: string) => string,
  origin: number,
): string | undefined {
  const { f, k, p, lock, res, idem, err } = event;
  const when = span(event.t - origin);
  if (f === "heal") return `Note over ${idOf("C", p)}: ${escape(`${when} all faults are over`)}`;
  if (f.startsWith("fault.") || f === "lost" || f === "held?" || f === "leave") {
    const what = `${when} ${f.replace("fault.", "")}${err === undefined ? "" : `: ${err}`}${f === "held?" ? `: ${String(event.accepted)}` : ""}`;
    return `Note over ${idOf("C", p)}: ${escape(what)}`;
  }
  const target = res ?? (f === "effect" ? idem : lock);
  if (target === undefined) return undefined;
  const client = idOf("C", p);
  const other = idOf(res === undefined && f !== "effect" ? "L" : "R", target);
  const said = escape(`${when} ${what(event)}`);
  if (k === "invoke") return `${client}->>${other}: ${said}`;
  if (k === "event") {
    const acted = f === "claim" || f === "read" || f === "write" || f === "effect";
    return f === "wakeup"
      ? `${other}-->>${client}: ${said}`
      : `Note over ${acted ? other : `${client},${other}`}: ${said}`;
  }
  return `${other}${k === "ok" ? "-->>" : "--x"}${client}: ${said}`;
}

function what(event: Ev): string {
  const { f, k, token, ver, from, accepted } = event;
  const parts: string[] = [f];
  if (token !== undefined) parts.push(`(${token.toString()})`);
  if (from !== undefined) parts.push(`from v${from}`);
  if (ver !== undefined) parts.push(`v${ver}`);
  if (accepted !== undefined) parts.push(accepted ? "accepted" : "refused");
  if (k === "fail" || k === "info") parts.push(k === "fail" ? "failed" : "outcome unknown");
  return parts.join(" ");
}

/** Mermaid has no quoting in messages: what has a meaning there is written as an entity. */
function escape(text: string): string {
  return text
    .replace(/[\p{Cc}\u2028\u2029]/gu, " ")
    .replace(/[#;:<>"&{}\\%`]/g, (sign) => `#${sign.codePointAt(0) ?? 32};`);
}
