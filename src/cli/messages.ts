import { wantsColor } from "./color.ts";
import { Stderr } from "./stdio.ts";

/** How much is said on stderr. */
export type Level = "quiet" | "normal" | "verbose";

const CLEAR_LINE = "\r\u001B[2K";

/** What the command says beside its data: on stderr, one line each, each with the command's name. */
export class Messages {
  readonly #stderr: Stderr = new Stderr();
  readonly #level: Level;
  readonly #rewrites: boolean;
  readonly #color: boolean;
  #statusShown = false;

  constructor(level: Level = "normal") {
    this.#level = level;
    this.#rewrites = this.#stderr.isTerminal && process.env["TERM"] !== "dumb";
    this.#color = wantsColor(2);
  }

  /** One line that is written over again: only on a terminal that can. */
  get rewrites(): boolean {
    return this.#rewrites;
  }

  /** Why the command failed: always said. */
  error(text: string): void {
    this.#line(this.#color ? `\u001B[31mringfence:\u001B[39m ${text}` : `ringfence: ${text}`);
  }

  /** What is worth knowing. */
  note(text: string): void {
    if (this.#level !== "quiet") this.#line(`ringfence: ${text}`);
  }

  /** What `--verbose` asks for. */
  detail(text: string): void {
    if (this.#level === "verbose") this.#line(`ringfence: ${text}`);
  }

  /** What is going on right now: on a terminal in place of the last status, elsewhere one more line. */
  status(text: string): void {
    if (this.#level === "quiet") return;
    if (!this.#rewrites) {
      this.#line(`ringfence: ${text}`);
      return;
    }
    this.#statusShown = true;
    this.#stderr.write(`${CLEAR_LINE}ringfence: ${text}`);
  }

  /** Takes the status away. */
  clearStatus(): void {
    if (this.#statusShown) this.#stderr.write(CLEAR_LINE);
    this.#statusShown = false;
  }

  /** A child runs from now on: no message may block. */
  careful(): void {
    this.#stderr.careful();
  }

  async flush(): Promise<void> {
    this.clearStatus();
    await this.#stderr.flush();
  }

  #line(text: string): void {
    this.clearStatus();
    this.#stderr.write(`${text}\n`);
  }
}
