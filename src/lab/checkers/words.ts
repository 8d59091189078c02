import type { Ev } from "../history.ts";

/** `12.345 s`, from the beginning of the history; as many decimals as tell something. */
export function at(ns: number, originNs: number): string {
  return span(ns - originNs);
}

/** A length of time: `38 ms`, `1.25 s`. */
export function span(ns: number): string {
  if (!Number.isFinite(ns)) return "for ever";
  const ms = ns / 1e6;
  if (Math.abs(ms) < 1) return `${trim(ms, 6)} ms`;
  if (Math.abs(ms) < 1000) return `${trim(ms, 3)} ms`;
  return `${trim(ms / 1000, 6)} s`;
}

function trim(value: number, decimals: number): string {
  return String(Number(value.toFixed(decimals)));
}

/** `A (34)`; without a token the beginning of the grant id stands for it. */
export function who(event: Pick<Ev, "p" | "token" | "grant">): string {
  const { p, token, grant } = event;
  if (token !== undefined) return `${p} (${token.toString()})`;
  return grant === undefined ? p : `${p} (grant ${grant.slice(0, 6)})`;
}

/** A name in quotes, shortened in its middle when it is very long. */
export function name(text: string | undefined): string {
  if (text === undefined) return "a lock without a name";
  const short = text.length > 80 ? `${text.slice(0, 50)}…${text.slice(-20)}` : text;
  return `"${short}"`;
}
