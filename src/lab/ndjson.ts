/** Histories as text: a line with the header, then one event a line, as JSON. Tokens are decimal strings. */
import {
  type Ev,
  type EvKind,
  type EvOp,
  type HistoryHeader,
  KINDS,
  NO_HEADER,
  OPS,
} from "./history.ts";

/** A line that is not what a history file may contain. `line` counts from 1. */
export class HistoryFormatError extends Error {
  override readonly name: string = "HistoryFormatError";
  readonly line: number;

  constructor(line: number, what: string) {
    super(`line ${line}: ${what}`);
    this.line = line;
  }
}

/** The first line of a file. */
export function headerLine(header: HistoryHeader): string {
  return `${JSON.stringify({ ringfence: "history", version: 1, ...header })}\n`;
}

/** One event. */
export function eventLine(event: Ev): string {
  const { token } = event;
  return `${JSON.stringify(token === undefined ? event : { ...event, token: token.toString() })}\n`;
}

/** A whole history, line by line. */
export function* toNdjson(
  history: Iterable<Ev> & { readonly header?: HistoryHeader },
): Generator<string> {
  yield headerLine(history.header ?? NO_HEADER);
  for (const event of history) yield eventLine(event);
}

type Check = (value: unknown) => boolean;

const TIME: Check = (value) => typeof value === "number" && Number.isFinite(value);
const COUNT: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const TEXT: Check = (value) => typeof value === "string";

const FIELDS: Readonly<Record<Exclude<keyof Ev, "token">, Check>> = {
  i: COUNT,
  t: TIME,
  p: TEXT,
  inc: COUNT,
  k: (value) => KINDS.includes(value as EvKind),
  f: (value) => OPS.includes(value as EvOp),
  op: COUNT,
  lt: TIME,
  lock: TEXT,
  grant: TEXT,
  mode: (value) => value === "exclusive" || value === "shared" || value === "permits",
  permits: COUNT,
  ttl: TIME,
  lockDelay: TIME,
  deadline: TIME,
  res: TEXT,
  ver: COUNT,
  from: COUNT,
  idem: TEXT,
  body: TEXT,
  accepted: (value) => typeof value === "boolean",
  clock: TEXT,
  path: TEXT,
  err: TEXT,
  rate: (value) => TIME(value) && (value as number) > 0,
};
const CHECKS: ReadonlyMap<string, Check> = new Map(Object.entries(FIELDS));
const REQUIRED = ["i", "t", "p", "inc", "k", "f"] as const;
const TOKEN = /^[1-9]\d{0,18}$/;

/** Reads a line as a JSON object. @throws HistoryFormatError */
export function readObject(text: string, line: number): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new HistoryFormatError(line, error instanceof Error ? error.message : String(error));
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new HistoryFormatError(line, `expected an object, got ${excerpt(text)}`);
  return value as Record<string, unknown>;
}

/** A token as it stands in a file. @throws HistoryFormatError */
export function readToken(value: unknown, line: number): bigint {
  if (typeof value !== "string" || !TOKEN.test(value))
    throw new HistoryFormatError(
      line,
      `expected "token" to be a decimal number in quotes, got ${excerpt(JSON.stringify(value))}`,
    );
  return BigInt(value);
}

/** Whether this is the first line of a history of the lab. @throws HistoryFormatError for a version from the future */
export function readHeader(
  object: Readonly<Record<string, unknown>>,
  line: number,
): HistoryHeader | undefined {
  if (object["ringfence"] !== "history") return undefined;
  const { version } = object;
  if (version !== 1)
    throw new HistoryFormatError(
      line,
      `histories of version ${JSON.stringify(version)} are not known here`,
    );
  const header: Record<string, unknown> = {};
  for (const [key, none] of Object.entries(NO_HEADER) as [string, unknown][]) {
    const given = object[key] ?? none;
    if (typeof given !== typeof none)
      throw new HistoryFormatError(line, `the header's "${key}" is not a ${typeof none}`);
    header[key] = given;
  }
  return header as unknown as HistoryHeader;
}

/**
 * Reads one event, strictly: unknown or ill-typed fields are refused. The object becomes the event.
 * @throws HistoryFormatError
 */
export function readEvent(object: Readonly<Record<string, unknown>>, line: number): Ev {
  const event = object as Record<string, unknown>;
  for (const key of REQUIRED)
    if (!Object.hasOwn(event, key)) throw new HistoryFormatError(line, `the event has no "${key}"`);
  for (const key of Object.keys(event)) {
    const value = event[key];
    if (key === "token") {
      event["token"] = readToken(value, line);
      continue;
    }
    const check = CHECKS.get(key);
    if (check === undefined)
      throw new HistoryFormatError(line, `an event has no field ${excerpt(key)}`);
    if (!check(value))
      throw new HistoryFormatError(line, `"${key}" cannot be ${excerpt(JSON.stringify(value))}`);
  }
  return event as unknown as Ev;
}

function excerpt(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
