import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findSetpriv } from "../../runtime/setpriv.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import type { Arm, Report, Role } from "./script.ts";

/** No step of the story takes long; one that does will not end as told. */
const PATIENCE_MS = 10_000;

/** A rider's process, as the story-teller sees it. */
export class Rider {
  readonly role: Role;
  readonly #child: ChildProcess;
  readonly #reports: Report[] = [];
  readonly #exited: Promise<void>;
  #errors = "";
  #ended = false;
  #onReport: () => void = () => undefined;

  /** @param hear called for each report, in order */
  constructor(
    arm: Arm,
    role: Role,
    folder: string,
    env: NodeJS.ProcessEnv,
    hear: (role: Role, report: Report) => void,
  ) {
    this.role = role;
    const script = fileURLToPath(new URL("./rider.cjs", import.meta.url));
    const args = [script, arm, role, join(folder, "locks.db"), join(folder, "shop.db")];
    const setpriv = findSetpriv();
    // A stopped process does not see that its story-teller was killed: the kernel has to end it.
    const words = [process.execPath, ...args];
    const [file = "", ...rest] =
      setpriv === null ? words : [setpriv, "--pdeathsig", "KILL", "--", ...words];
    this.#child = spawn(file, rest, { env, stdio: ["ignore", "ignore", "pipe", "ipc"] });
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      this.#errors += chunk.toString();
    });
    this.#child.on("message", (message) => {
      const report = message as Report;
      hear(role, report);
      this.#reports.push(report);
      this.#onReport();
    });
    this.#exited = new Promise((resolve) => {
      const end = (): void => {
        this.#ended = true;
        this.#onReport();
        resolve();
      };
      this.#child.once("error", (error) => {
        this.#errors += error.message;
        end();
      });
      this.#child.once("close", end);
    });
  }

  /** Waits for a report of this kind. */
  async said<W extends Report["what"]>(what: W): Promise<Report & { readonly what: W }> {
    const found = (): (Report & { readonly what: W }) | undefined =>
      this.#reports.find((report): report is Report & { readonly what: W } => report.what === what);
    await this.#until(() => found() !== undefined || this.#ended, `to say that it ${what}`);
    const report = found();
    if (report === undefined)
      throw new Error(`${this.role} ended before it ${what}: ${this.#errors.trim()}`);
    return report;
  }

  /** Lets a rider that waits go on. */
  tell(): void {
    this.#child.send("go on");
  }

  /** Wakes a rider that is stopped. */
  wake(): void {
    this.#child.kill("SIGCONT");
  }

  async ended(): Promise<void> {
    await this.#until(() => this.#ended, "to end");
  }

  /** Ends it, stopped or not. */
  async kill(): Promise<void> {
    if (this.#ended) return;
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  async #until(done: () => boolean, what: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = systemClock.timer(
        PATIENCE_MS,
        () => {
          reject(new Error(`waited too long for ${this.role} ${what}. ${this.#errors.trim()}`));
        },
        true,
      );
      this.#onReport = () => {
        if (!done()) return;
        timer.cancel();
        resolve();
      };
      this.#onReport();
    });
  }
}
