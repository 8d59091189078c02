/**
 * Writing to stdout and stderr without Node's streams. `process.stderr` makes a pipe or socket non-blocking, and that
 * flag belongs to the open file that a child shares: a plain `cat` in it then fails with EAGAIN. And a blocking write
 * to a full pipe stops the event loop, so that nobody would end a child whose lease is lost.
 */
import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { isatty } from "node:tty";
import { systemClock } from "../runtime/system-clock.ts";

/** Nobody reads stdout any more. */
export class BrokenPipeError extends Error {
  override readonly name: string = "BrokenPipeError";
}

const RETRY_MS = 10;
/** How long messages may wait at the end for somebody to read them. */
const FLUSH_MS = 500;

/** Writes data to stdout, as slowly as its reader reads. @throws BrokenPipeError when it is gone */
export async function writeOut(text: string): Promise<void> {
  let rest: Uint8Array = Buffer.from(text);
  while (rest.length > 0) {
    const written = tryWrite(1, rest);
    if (written === "broken") throw new BrokenPipeError("stdout is closed");
    if (written === "full") await pause(RETRY_MS);
    else rest = rest.subarray(written);
  }
}

/** Waits on the system's clock. */
export async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    systemClock.timer(ms, resolve, true);
  });
}

/** Stderr for messages: never blocks the event loop while a child runs, never throws, drops what nobody reads. */
export class Stderr {
  readonly isTerminal: boolean = isatty(2);
  readonly #fd: number;
  /** Writing at once cannot block, whatever the reader does. */
  readonly #safe: boolean;
  #queue: Uint8Array[] = [];
  #careful = false;

  constructor() {
    const reopened = reopen();
    this.#fd = reopened ?? 2;
    this.#safe = reopened !== null || isFile();
  }

  /** From now on a child runs: nothing may block. */
  careful(): void {
    this.#careful = true;
  }

  write(text: string): void {
    this.#queue.push(Buffer.from(text));
    if (this.#safe || !this.#careful) this.#drain();
  }

  /** Writes what is left, for at most half a second. */
  async flush(): Promise<void> {
    this.#careful = false;
    const until = systemClock.mono() + FLUSH_MS;
    if (this.#safe) this.#drain();
    else await this.#finish();
    while (this.#queue.length > 0 && systemClock.mono() < until) {
      await pause(RETRY_MS);
      this.#drain();
    }
  }

  #drain(): void {
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const written = tryWrite(this.#fd, next);
      if (written === "full") return;
      if (written === "broken" || written >= next.length) this.#queue.shift();
      else this.#queue[0] = next.subarray(written);
    }
  }

  /** A socket cannot be opened again. Its child has ended, so Node's stream may make it non-blocking now. */
  async #finish(): Promise<void> {
    const rest = Buffer.concat(this.#queue);
    this.#queue = [];
    if (rest.length === 0) return;
    await new Promise<void>((resolve) => {
      systemClock.timer(FLUSH_MS, resolve);
      process.stderr.once("error", () => {
        resolve();
      });
      process.stderr.write(rest, () => {
        resolve();
      });
    });
  }
}

/** How many bytes went out, or why none did. */
function tryWrite(fd: number, data: Uint8Array): number | "full" | "broken" {
  try {
    return writeSync(fd, data);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EAGAIN" ? "full" : "broken";
  }
}

function isFile(): boolean {
  try {
    return fstatSync(2).isFile();
  } catch {
    // A closed stderr: writing fails at once.
    return true;
  }
}

/** A pipe or terminal, opened once more: non-blocking for us alone. */
function reopen(): number | null {
  try {
    const stat = fstatSync(2);
    if (!stat.isFIFO() && !stat.isCharacterDevice()) return null;
    const path = process.platform === "linux" ? "/proc/self/fd/2" : "/dev/fd/2";
    return openSync(path, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    // Another user's terminal, no /proc: then messages wait until the child has ended.
    return null;
  }
}
