import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Host } from "./hosts.ts";
import type { Said, Task, Told, WorkerSetup } from "./messages.ts";

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
  /** Those in it; most have a process of their own. */
  readonly names: readonly string[];
  /** Called where the process asks to be stopped. */
  onStop: (ms: number) => void = () => undefined;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #count = 0;
  #gone = false;
  #complaint = "";

  private constructor(setup: WorkerSetup, env: NodeJS.ProcessEnv, host: Host | undefined) {
    this.names = setup.names;
    const names = setup.names.join(", ");
    const here = { name: process.execPath, args: process.execArgv };
    const { name, args } = host?.within(here) ?? here;
    this.#child = fork(WORKER, [JSON.stringify(setup)], {
      execPath: name,
      execArgv: [...args],
      env: { ...process.env, ...env },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      this.#complaint = (this.#complaint + chunk.toString()).slice(-2000);
    });
    this.#child.on("message", (said: Said) => {
      if ("stopMs" in said) {
        this.onStop(said.stopMs);
        this.#tell({ do: "go on", n: said.n });
        return;
      }
      const waiting = this.#waiting.get(said.n);
      this.#waiting.delete(said.n);
      if ("error" in said) waiting?.reject(new Error(`${names}: ${said.error}`));
      else waiting?.resolve(said.result);
    });
    this.#child.on("exit", () => {
      const wanted = this.#gone;
      this.#gone = true;
      if (wanted) return;
      for (const { reject } of this.#waiting.values())
        reject(new Error(`${names} ended: ${this.#complaint}`));
    });
    // What cannot be sent to a dead process is noticed by its end.
    this.#child.on("error", () => undefined);
  }

  /** Starts one, ready for tasks; on a host of its own where that is given. */
  static async start(
    setup: WorkerSetup,
    env: NodeJS.ProcessEnv,
    host?: Host,
  ): Promise<ClientChild> {
    const child = new ClientChild(setup, env, host);
    await child.#answer(0);
    return child;
  }

  /** Has one of its clients do something. */
  async do(as: string, task: Task): Promise<unknown> {
    this.#count += 1;
    const n = this.#count;
    const answer = this.#answer(n);
    this.#tell({ ...task, n, as });
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

  #tell(message: Told): void {
    if (!this.#gone) this.#child.send(message);
  }

  async #answer(n: number): Promise<unknown> {
    return await new Promise((resolve, reject) => {
      this.#waiting.set(n, { resolve, reject });
    });
  }
}
