import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Numbered, Said, Task, WorkerSetup } from "./messages.ts";

/** The worker beside this file, compiled or not. */
const WORKER: string = fileURLToPath(
  new URL(`./worker${extname(fileURLToPath(import.meta.url))}`, import.meta.url),
);

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** A client process that does what it is told. What it is asked when it is dead never comes to an end. */
export class ClientChild {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;
  #gone = false;
  #complaint = "";

  private constructor(setup: WorkerSetup, env: NodeJS.ProcessEnv) {
    this.name = setup.name;
    this.#child = fork(WORKER, [JSON.stringify(setup)], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      this.#complaint = (this.#complaint + chunk.toString()).slice(-2000);
    });
    this.#child.on("message", (said: Said) => {
      const waiting = this.#waiting.get(said.n);
      this.#waiting.delete(said.n);
      if ("error" in said) waiting?.reject(new Error(`${this.name}: ${said.error}`));
      else waiting?.resolve(said.result);
    });
    this.#child.on("exit", () => {
      const wanted = this.#gone;
      this.#gone = true;
      if (wanted) return;
      for (const { reject } of this.#waiting.values())
        reject(new Error(`${this.name} ended: ${this.#complaint}`));
    });
    // What cannot be sent to a dead process is noticed by its end.
    this.#child.on("error", () => undefined);
  }

  /** Starts one, ready for tasks. */
  static async start(setup: WorkerSetup, env: NodeJS.ProcessEnv): Promise<ClientChild> {
    const child = new ClientChild(setup, env);
    await child.#answer(0);
    return child;
  }

  async do(task: Task): Promise<unknown> {
    this.#count += 1;
    const n = this.#count;
    const answer = this.#answer(n);
    const message: Numbered = { ...task, n };
    if (!this.#gone) this.#child.send(message);
    return await answer;
  }

  stop(): void {
    this.#child.kill("SIGSTOP");
  }

  continue(): void {
    this.#child.kill("SIGCONT");
  }

  /** As kill -9 does. */
  async kill(): Promise<void> {
    const already = this.#child.exitCode !== null || this.#child.signalCode !== null;
    this.#gone = true;
    if (already) return;
    const gone = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await gone;
  }

  async #answer(n: number): Promise<unknown> {
    return await new Promise((resolve, reject) => {
      this.#waiting.set(n, { resolve, reject });
    });
  }
}
