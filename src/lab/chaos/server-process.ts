/** What servers of the lab share: a free port, a pause, the user to run as, and a process with all that it starts. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { type AddressInfo, createServer } from "node:net";
import { promisify } from "node:util";
import { BackendConfigError } from "../../core/errors.ts";
import { findSetpriv } from "../../runtime/setpriv.ts";
import { systemClock } from "../../runtime/system-clock.ts";

/** How long a server may take until it answers, in milliseconds. */
export const START_MS = 20_000;

/** How `setpriv` and `nsenter` end where there is no such program. */
const NO_SUCH_PROGRAM = 127;

/** The user that a server runs as; nothing where this process is not root. */
export interface ServerUser {
  readonly uid?: number;
  readonly gid?: number;
}

/** A program with its arguments. */
export interface Program {
  readonly name: string;
  readonly args: readonly string[];
}

export async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => void systemClock.timer(ms, resolve, true));
}

/** A port of the loopback interface that was free a moment ago. */
export async function freePort(): Promise<number> {
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;
  await new Promise<void>((resolve) => {
    listener.close(() => {
      resolve();
    });
  });
  return port;
}

/**
 * The unprivileged user that a package made for its server, where this process is root, which such servers refuse.
 * @throws BackendConfigError when there is no such user
 */
export async function serverUser(name: string, advice: string): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return {};
  try {
    const [uid, gid] = await Promise.all([run("id", ["-u", name]), run("id", ["-g", name])]);
    return { uid: Number(uid), gid: Number(gid) };
  } catch (cause) {
    throw missing(`There is no user "${name}" here`, advice, cause);
  }
}

/** Gives a folder and what is in it to that user. */
export async function giveTo(folder: string, { uid, gid }: ServerUser): Promise<void> {
  if (uid !== undefined) await run("chown", ["-R", `${uid}:${gid ?? uid}`, folder]);
}

/**
 * What a program says, once it has ended. Nothing here waits for one and does nothing else meanwhile: the ways of other
 * scenarios lead through this process.
 * @throws Error with what it said on `stderr`
 */
export async function run(
  program: string,
  args: readonly string[],
  user: ServerUser = {},
): Promise<string> {
  return (await promisify(execFile)(program, args, { ...user, cwd: "/" })).stdout;
}

/** What to say where a server cannot be started at all. */
export function missing(what: string, advice: string, cause?: unknown): BackendConfigError {
  return new BackendConfigError(`${what}: ${advice}, or leave --real out.`, {
    operation: "open",
    outcome: "not-applied",
    cause,
  });
}

/** The same program, ended by the kernel when this process is killed, where it can do that. */
export function mortal({ name, args }: Program): Program {
  const setpriv = findSetpriv();
  if (setpriv === null) return { name, args };
  return { name: setpriv, args: ["--pdeathsig", "KILL", "--", name, ...args] };
}

/** A server as a tree of processes, started again and again. It ends with this process. */
export class ServerProcess {
  readonly #program: Program;
  readonly #user: ServerUser;
  readonly #advice: string;
  #child: ChildProcess | undefined;
  #said = "";

  /** `advice`: what to do where there is no such program. */
  constructor(program: Program, user: ServerUser, advice: string) {
    this.#program = program;
    this.#user = user;
    this.#advice = advice;
  }

  /**
   * Starts it, and waits until `ready` resolves to true. One that ends at once is started again for a while: after a
   * crash the last of the old processes may still be in its way.
   * @throws BackendConfigError when there is no such program; Error when it does not get ready
   */
  async start(ready: () => Promise<boolean>): Promise<void> {
    const until = systemClock.mono() + START_MS;
    for (;;) {
      const child = this.#spawn();
      this.#child = child;
      const failure: { error?: NodeJS.ErrnoException } = {};
      child.once("error", (error) => (failure.error = error));
      while (failure.error === undefined && !isOver(child)) {
        if (await ready()) return;
        if (systemClock.mono() > until) break;
        await pause(20);
      }
      if (failure.error?.code === "ENOENT" || child.exitCode === NO_SUCH_PROGRAM)
        throw missing(`There is no ${this.#program.name} here`, this.#advice, failure.error);
      if (systemClock.mono() > until) break;
      await pause(50);
    }
    await this.kill();
    throw new Error(`${this.#program.name} does not start: ${this.#said}`);
  }

  /** Stops one of the processes that it started where it stands, for ever: the one with such a title. */
  async stopPart(title: RegExp): Promise<void> {
    for (const pid of await childrenOf(this.#child?.pid))
      if (title.test(await said("ps", ["-o", "args=", "-p", String(pid)]))) send(pid, "SIGSTOP");
  }

  /** Ends it at once with all that it started, as a crash does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.pid === undefined || isOver(child)) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    // It starts nothing more while its children are looked for.
    send(child.pid, "SIGSTOP");
    for (const pid of [...(await childrenOf(child.pid)), child.pid]) send(pid, "SIGKILL");
    await gone;
  }

  #spawn(): ChildProcess {
    this.#said = "";
    const { name, args } = mortal(this.#program);
    const stdio = ["ignore", "pipe", "pipe"] as const;
    const child = spawn(name, args, { ...this.#user, cwd: "/", stdio: [...stdio] });
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (data: Buffer) => {
        this.#said = (this.#said + data.toString()).slice(-2000);
      });
    return child;
  }
}

function isOver({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

async function childrenOf(pid: number | undefined): Promise<readonly number[]> {
  if (pid === undefined) return [];
  const found = await said("pgrep", ["-P", String(pid)]);
  return found.split("\n").filter(Boolean).map(Number);
}

/** What a program says; nothing where there is no such program, or nothing to be said. */
async function said(program: string, args: readonly string[]): Promise<string> {
  return await run(program, args).catch(() => "");
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
