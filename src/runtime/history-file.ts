import { createWriteStream, type WriteStream } from "node:fs";
import type { EventSink, LockEvent } from "../core/events.ts";
import { processIdentity } from "./process-identity.ts";

/** Lines that may wait for a slow disk; what comes beyond is counted, not kept. */
const MAX_BACKLOG_BYTES = 8 * 1024 * 1024;

/** Appends every event to a file, one line of JSON each, for `ringfence verify`. */
export function historyFile(file: string): EventSink {
  let stream: WriteStream | undefined;
  /** Closed, or not to be written. */
  let over = false;
  let dropped = 0;
  const open = (): WriteStream => {
    if (stream !== undefined) return stream;
    stream = createWriteStream(file, { flags: "a", mode: 0o600 });
    stream.on("error", (error) => {
      over = true;
      process.emitWarning(
        `The history file ${file} cannot be written: ${error.message}`,
        "RingfenceHistoryWarning",
      );
    });
    return stream;
  };
  const tellDropped = (out: WriteStream): void => {
    if (dropped > 0) out.write(`${JSON.stringify({ type: "dropped", count: dropped })}\n`);
    dropped = 0;
  };
  return {
    wants: () => !over,
    emit(event) {
      const out = open();
      if (out.writableLength > MAX_BACKLOG_BYTES) {
        dropped += 1;
        return;
      }
      tellDropped(out);
      out.write(line(event));
    },
    listenerFailed: () => undefined,
    async close() {
      const out = stream;
      if (out === undefined || over) return;
      over = true;
      tellDropped(out);
      await new Promise<void>((resolve) => {
        out.once("error", () => {
          resolve();
        });
        out.end(resolve);
      });
    },
  };
}

function line(event: LockEvent): string {
  const { pid, id } = processIdentity();
  const facts = { pid, process: id, ...event };
  try {
    return `${JSON.stringify(facts, plain)}\n`;
  } catch {
    // The reason of an abort may be anything, also what refers to itself.
    return `${JSON.stringify({ ...facts, cause: "not to be written as JSON" }, plain)}\n`;
  }
}

function plain(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  return value instanceof Error ? { name: value.name, message: value.message } : value;
}
