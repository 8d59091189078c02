/**
 * The driver sends several statements as one text, with their parameters put in. They are found in it by their own texts,
 * so that the model is asked by name for exactly what a server would be asked for, and for nothing else.
 */
import { tablesOf } from "../../drivers/postgres/options.ts";
import { statements } from "../../drivers/postgres/sql.ts";
import { GUARD_TEXTS } from "./postgres-guard.ts";
import { PLAIN } from "./postgres-plain.ts";

/** A statement by its name: one of the driver's, or a word of the session itself. */
export interface Asked {
  readonly name: string;
  readonly args: readonly (string | null)[];
}

interface Pattern {
  readonly name: string;
  readonly text: RegExp;
  /** Which parameter each captured group is. */
  readonly params: readonly number[];
}

/** A text constant as the driver writes one. */
const CONSTANT = String.raw`(NULL::text|'[^']*'|convert_from\(decode\('[A-Za-z0-9+/=]*','base64'\),'UTF8'\))`;

/** What a session says that is no statement of the lease table. */
const WORDS: readonly Pattern[] = [
  { name: "rollback", text: /ROLLBACK/y, params: [] },
  // What transactions of the guard begin with.
  {
    name: "guardBegin",
    text: /BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = (\d+); SET LOCAL statement_timeout = \d+; SET LOCAL idle_in_transaction_session_timeout = (\d+)/y,
    params: [1, 2],
  },
  {
    name: "plainBegin",
    text: /BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL client_min_messages = warning/y,
    params: [],
  },
  { name: "greeting", text: /SELECT concat\(pg_backend_pid\(\), '\|', ([\s\S]*)\)$/y, params: [1] },
  { name: "schema", text: /SELECT concat\(EXISTS \(SELECT 1 FROM pg_catalog[\s\S]*$/y, params: [] },
  { name: "format", text: /SELECT format::text FROM [\s\S]*$/y, params: [] },
];

const PATTERNS: readonly Pattern[] = Object.entries(statements(tablesOf({})))
  .flatMap(([name, statement]) =>
    name === "tables" ? [] : [patternOf(name, (statement as { readonly text: string }).text)],
  )
  // The one that the guard sends along with what begins.
  .concat(patternOf("guardClaim", GUARD_TEXTS["guardClaim"] ?? ""))
  .sort((a, b) => b.text.source.length - a.text.source.length);

function patternOf(name: string, text: string): Pattern {
  const params: number[] = [];
  const source = text
    .split(/\$(\d+)/)
    .map((part, i) => {
      if (i % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
      const known = params.indexOf(Number(part));
      if (known >= 0) return `(?:\\${known + 1})`;
      params.push(Number(part));
      return CONSTANT;
    })
    .join("");
  return { name, text: new RegExp(source, "y"), params };
}

/** The name of a statement by its text, as the extended protocol sends it. @throws RangeError for one that is not known */
export function nameOf(text: string): string {
  const name = BY_TEXT.get(text) ?? (text.startsWith(TIMEOUTS) ? "timeouts" : undefined);
  if (name === undefined) throw new RangeError(`no model of the statement ${text}`);
  return name;
}

/** How the guard asks for the timeouts that a session begins with. */
const TIMEOUTS = "SELECT (extract(epoch FROM current_setting('lock_timeout')";

const BY_TEXT: ReadonlyMap<string, string> = new Map([
  ...Object.entries(PLAIN).map(([name, { text }]) => [text, name] as const),
  ...Object.entries(statements(tablesOf({}))).flatMap(([name, statement]) =>
    name === "tables" ? [] : [[(statement as { readonly text: string }).text, name] as const],
  ),
  ...Object.entries(GUARD_TEXTS).map(([name, text]) => [text, name] as const),
  ["ROLLBACK", "rollback"],
]);

const ALL: readonly Pattern[] = [...PATTERNS, ...WORDS];

/** The statements of one message, in order. @throws RangeError for one that is not known */
export function askedOf(text: string): readonly Asked[] {
  const asked: Asked[] = [];
  for (let at = 0; at < text.length; ) {
    const found = matchAt(text, at);
    if (found === null)
      throw new RangeError(`no model of the statement ${text.slice(at, at + 200)}`);
    asked.push(found.asked);
    at = found.end + 2;
  }
  return asked;
}

/** The statement that begins here, and goes on to the next or to the end. */
function matchAt(text: string, at: number): { readonly asked: Asked; readonly end: number } | null {
  for (const { name, text: pattern, params } of ALL) {
    pattern.lastIndex = at;
    const captured = pattern.exec(text);
    if (captured === null) continue;
    const end = at + captured[0].length;
    if (end < text.length && !text.startsWith(";\n", end)) continue;
    const args: (string | null)[] = [];
    params.forEach((param, i) => {
      const value = captured[i + 1] ?? "";
      args[param - 1] = name === "greeting" ? value : valueOf(value);
    });
    return { asked: { name, args }, end };
  }
  return null;
}

function valueOf(constant: string): string | null {
  if (constant.startsWith("NULL")) return null;
  if (constant.startsWith("'")) return constant.slice(1, -1);
  if (!constant.startsWith("convert_from")) return constant;
  const [, base64 = ""] = /decode\('([^']*)'/.exec(constant) ?? [];
  return Buffer.from(base64, "base64").toString();
}
