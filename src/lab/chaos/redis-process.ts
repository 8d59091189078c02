import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { BackendConfigError } from "../../core/errors.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { call, info } from "./redis-client.ts";
import { freePort, pause } from "./server-process.ts";
import type { WallClock } from "./wall-clock.ts";

const START_MS = 10_000;

/** A real `redis-server` on a free port of the loopback interface, in a folder of its own, ended by its pid. */
export class RedisProcess {
  readonly name: string;
  readonly port: number;
  readonly #folder: string;
  readonly #clock: WallClock | undefined;
  #child: ChildProcess | undefined;

  private constructor(name: string, port: number, folder: string, clock: WallClock | undefined) {
    this.name = name;
    this.port = port;
    this.#folder = folder;
    this.#clock = clock;
  }

  /** @throws BackendConfigError when there is no `redis-server` here */
  static async start(name: string, folder: string, clock?: WallClock): Promise<RedisProcess> {
    mkdirSync(folder, { recursive: true });
    const server = new RedisProcess(name, await freePort(), folder, clock);
    await server.start();
    return server;
  }

  /** Starts it on its port, empty: it keeps nothing on disk. */
  async start(): Promise<void> {
    const args = {
      "--port": String(this.port),
      "--bind": "127.0.0.1",
      "--dir": this.#folder,
      "--save": "",
      "--appendonly": "no",
      "--hz": "100",
      "--repl-diskless-sync-delay": "0",
      "--notify-keyspace-events": "Kgx",
    };
    const child = spawn("redis-server", Object.entries(args).flat(), {
      stdio: "ignore",
      env: { ...process.env, ...this.#clock?.env },
    });
    this.#child = child;
    const failure: { error?: Error } = {};
    child.once("error", (error) => {
      failure.error = error;
    });
    const until = systemClock.mono() + START_MS;
    while ((await call(this.port, ["PING"]).catch(() => null)) !== "PONG") {
      if (failure.error !== undefined || child.exitCode !== null || systemClock.mono() > until)
        throw new BackendConfigError(
          "No redis-server starts here: apt-get install redis-server, or leave --real out.",
          { operation: "open", outcome: "not-applied", cause: failure.error },
        );
      await pause(10);
    }
  }

  /** Makes it a copy of another one, reached by a port; resolves when it is in step. */
  async copy(port: number, primary: RedisProcess, replicas: number): Promise<void> {
    await call(this.port, ["REPLICAOF", "127.0.0.1", port]);
    const until = systemClock.mono() + START_MS;
    // The primary counts a replica from its first acknowledgement on, and WAIT with it.
    for (;;) {
      const listed = await info(primary.port, "replication");
      if ((listed.match(/^slave\d+:.*state=online/gm) ?? []).length >= replicas) return;
      if (systemClock.mono() > until) throw new Error(`${this.name} does not copy`);
      await pause(20);
    }
  }

  /** Ends it at once, as a crash does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }
}
