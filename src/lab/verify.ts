/** Judges a history file, whatever its size: one pass, bounded memory. */
import { createReadStream } from "node:fs";
import {
  CHECKERS,
  type CheckOptions,
  Judgement,
  PROPERTIES,
  type PropertyId,
  type Verdict,
} from "./checkers/index.ts";
import type { Ev, HistoryHeader, NewEv } from "./history.ts";
import { LockEventReader } from "./lock-events.ts";
import { HistoryFormatError, readEvent, readHeader, readObject } from "./ndjson.ts";
import { Reorder } from "./reorder.ts";

/** How a verification ended, as exit code: held, violated, no progress, undecided. */
type VerifyExit = 0 | 1 | 2 | 3;

/** What a file was found to be. */
export interface Verification {
  readonly exit: VerifyExit;
  readonly verdicts: readonly Verdict[];
  /** `undefined`: recorded by a manager. */
  readonly header: HistoryHeader | undefined;
  readonly events: number;
  /** From the first event to the last. */
  readonly spanNs: number;
  /** What limits the verdict: lines that were lost, or came too late to be put in order. */
  readonly warnings: readonly string[];
}

/** How to verify. */
export interface VerifyOptions extends CheckOptions {
  readonly properties?: readonly PropertyId[];
  /** Events that may wait to be put in order: processes write one file, each a little late. Default 65,536. */
  readonly window?: number;
  /** Is handed each event, in order. */
  readonly onEvent?: (event: Ev) => void;
}

/** Reads of two processes' clocks in one instant differ by less. */
const HOST_EPSILON_NS = 1e6;
/** P16 is about scenarios, which say what they expect. */
const RECORDED: readonly PropertyId[] = PROPERTIES.filter((id) => id !== "P16");

/**
 * Verifies a history file: one of the lab's, or what managers recorded with `history: { file }`.
 * @throws HistoryFormatError for a line that does not belong into such a file; the error of a file that cannot be read
 */
export async function verifyFile(file: string, options: VerifyOptions = {}): Promise<Verification> {
  return await verifyLines(linesOf(file), options);
}

/** Verifies the lines of a history file, given in batches. The last line may be torn: its writer died. */
export async function verifyLines(
  batches: AsyncIterable<readonly Line[]> | Iterable<readonly Line[]>,
  options: VerifyOptions = {},
): Promise<Verification> {
  let run: Run | undefined;
  let number = 0;
  for await (const lines of batches)
    for (const line of lines) {
      number += 1;
      if (line.text !== "") run = readLine(line, number, run, options);
    }
  return (run ?? new Run(undefined, options)).finish();
}

/** The first line says what kind of history it is. */
function readLine(
  { text, torn }: Line,
  number: number,
  run: Run | undefined,
  options: VerifyOptions,
): Run | undefined {
  try {
    const object = readObject(text, number);
    if (run !== undefined) {
      run.read(object, number);
      return run;
    }
    const header = readHeader(object, number);
    const started = new Run(header, options);
    if (header === undefined) started.read(object, number);
    return started;
  } catch (error) {
    if (!torn || !(error instanceof HistoryFormatError)) throw error;
    run?.warnings.add("The last line is torn: whoever wrote it was ended.");
    return run;
  }
}

/** One verification under way. */
class Run {
  readonly warnings = new Set<string>();
  readonly #header: HistoryHeader | undefined;
  readonly #judgement: Judgement;
  readonly #reorder: Reorder;
  readonly #reader = new LockEventReader();
  readonly #onEvent: ((event: Ev) => void) | undefined;
  #events = 0;
  #first: number | undefined;
  #last = 0;
  #late = 0;

  constructor(header: HistoryHeader | undefined, options: VerifyOptions) {
    this.#header = header;
    this.#onEvent = options.onEvent;
    const recorded = header === undefined;
    this.#judgement = new Judgement(options.properties ?? RECORDED, {
      epsilonNs: recorded ? HOST_EPSILON_NS : 0,
      tokensInAnswerOrder: recorded,
      ...options,
    });
    // The lab records in order; managers of several processes do not.
    this.#reorder = new Reorder(recorded ? (options.window ?? 65_536) : 0, (event) => {
      this.#step(event);
    });
  }

  read(object: Readonly<Record<string, unknown>>, line: number): void {
    const event =
      this.#header === undefined ? this.#reader.read(object, line) : readEvent(object, line);
    if (event !== undefined) this.#reorder.push(event);
  }

  finish(): Verification {
    this.#reorder.flush();
    const { dropped } = this.#reader;
    if (dropped > 0)
      this.warnings.add(`${dropped} events are missing: the disk was too slow for the recorder.`);
    if (this.#late > 0)
      this.warnings.add(`${this.#late} events came too late in the file to be put in order.`);
    const verdicts = this.#judgement
      .finish()
      .map((verdict) => (this.#late > 0 ? withoutOrder(verdict) : verdict))
      .map((verdict) => (dropped > 0 ? withHoles(verdict) : verdict));
    return {
      exit: exitOf(verdicts),
      verdicts,
      header: this.#header,
      events: this.#events,
      spanNs: this.#first === undefined ? 0 : this.#last - this.#first,
      warnings: [...this.warnings],
    };
  }

  #step(event: NewEv): void {
    if (event.t < this.#last && this.#events > 0) this.#late += 1;
    this.#first ??= event.t;
    this.#last = Math.max(this.#last, event.t);
    const numbered: Ev =
      this.#header === undefined
        ? { ...event, inc: event.inc ?? 0, i: this.#events }
        : (event as Ev);
    this.#events += 1;
    this.#judgement.step(numbered);
    this.#onEvent?.(numbered);
  }
}

/** Events that a report may hold. */
const SHOWN = 20_000;

/** What a report of a file shows: all events, or of a long one those around the first violation, on its lock. */
export async function eventsToShow(file: string, found: Verification): Promise<readonly Ev[]> {
  const [violation] = found.verdicts.flatMap(({ violations }) => violations);
  const witness = violation?.witness ?? [];
  const lock = witness.find((event) => event.lock !== undefined)?.lock;
  const from = found.events <= SHOWN ? 0 : Math.max(0, (witness[0]?.i ?? 0) - SHOWN * 10);
  const events: Ev[] = [];
  const onEvent = (event: Ev): void => {
    const fits = found.events <= SHOWN || event.lock === undefined || event.lock === lock;
    if (event.i >= from && events.length < SHOWN && (fits || lock === undefined))
      events.push(event);
  };
  await verifyFile(file, { properties: [], onEvent });
  return events;
}

/** What a verdict is worth when events are missing: a violation may need none of them. */
function withHoles(verdict: Verdict): Verdict {
  const explained = CHECKERS[verdict.property].needsEveryEvent;
  if (verdict.verdict === false && !explained) return verdict;
  return undecided(verdict, "the history has holes");
}

/** What a verdict is worth when events stand in the wrong place: what was seen before may have come after. */
function withoutOrder(verdict: Verdict): Verdict {
  return undecided(verdict, "events are out of order");
}

function undecided(verdict: Verdict, reason: string): Verdict {
  if (verdict.judged === 0 && verdict.verdict === true) return verdict;
  return { ...verdict, verdict: "unknown", reasons: [...verdict.reasons, reason] };
}

/** 1 when safety is broken, 2 when only progress is, 3 when something, or everything, could not be judged. */
function exitOf(verdicts: readonly Verdict[]): VerifyExit {
  const broken = verdicts.filter(({ verdict }) => verdict === false);
  if (broken.some(({ property }) => CHECKERS[property].kind === "safety")) return 1;
  if (broken.length > 0) return 2;
  if (verdicts.some(({ verdict }) => verdict === "unknown")) return 3;
  return verdicts.some(({ judged }) => judged > 0) ? 0 : 3;
}

/** A line of a file; `torn`: the last one, without its end. */
export interface Line {
  readonly text: string;
  readonly torn: boolean;
}

/** Longest line that is read; a longer one is no event. */
const MAX_LINE = 1 << 20;

/** The lines of a file, in batches. Only "\n" ends a line: names may contain every other kind of line end. */
async function* linesOf(file: string): AsyncGenerator<readonly Line[]> {
  let rest = "";
  let number = 0;
  for await (const chunk of createReadStream(file, { encoding: "utf8", highWaterMark: 1 << 18 })) {
    const parts = (rest + String(chunk)).split("\n");
    rest = parts.pop() ?? "";
    number += parts.length;
    if (rest.length > MAX_LINE)
      throw new HistoryFormatError(number + 1, `longer than ${MAX_LINE} characters`);
    yield parts.map((text) => ({ text, torn: false }));
  }
  if (rest !== "") yield [{ text: rest, torn: true }];
}

export { HistoryFormatError };
