/** What the Redis benchmark measures with: a server of its own, clients, and the locks as subjects of one shape. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";

type NodeRedis = ReturnType<typeof connectable>;

function connectable(port: number) {
  return createClient({ socket: { host: "127.0.0.1", port } });
}

/** A lock by anybody. `take` waits for it, and resolves to what gives it back. */
export interface Lock {
  readonly name: string;
  readonly library: "ioredis" | "node-redis";
  readonly take: (key: string) => Promise<() => PromiseLike<unknown>>;
}

/** A server on a free port of this host, with nothing on disk. */
export class BenchServer {
  readonly port: number;
  readonly #folder: string;
  readonly #child: ChildProcess;
  #asked: Redis | undefined;

  private constructor(port: number, folder: string, child: ChildProcess) {
    this.port = port;
    this.#folder = folder;
    this.#child = child;
  }

  static async start(): Promise<BenchServer> {
    const listener = net.createServer();
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const { port } = listener.address() as net.AddressInfo;
    await new Promise((resolve) => listener.close(resolve));
    const folder = mkdtempSync(join(tmpdir(), "ringfence-bench-"));
    const where = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder];
    const words = [...where, "--save", "", "--appendonly", "no"];
    const server = new BenchServer(port, folder, spawn("redis-server", words, { stdio: "ignore" }));
    while (!(await server.#answers())) await sleep(20);
    return server;
  }

  ioredis(): Redis {
    return new Redis({ host: "127.0.0.1", port: this.port });
  }

  async nodeRedis(): Promise<NodeRedis> {
    const client = connectable(this.port);
    await client.connect();
    return client;
  }

  /** Processor time that its main thread has used so far. */
  async cpuMs(): Promise<number> {
    this.#asked ??= this.ioredis();
    const used = (await this.#asked.info("cpu")).matchAll(
      /used_cpu_(?:sys|user)_main_thread:(\S+)/g,
    );
    return [...used].reduce((sum, [, seconds]) => sum + Number(seconds) * 1000, 0);
  }

  /** Counts the commands that clients send, without what scripts call inside. Returns what stops and tells. */
  async count(): Promise<() => Promise<number>> {
    const socket = net.connect(this.port, "127.0.0.1");
    let [seen, rest] = [-1, ""];
    socket.on("data", (data) => {
      const lines = (rest + data.toString("latin1")).split("\r\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (!line.includes(" lua] ")) seen += 1;
    });
    socket.write("MONITOR\r\n");
    while (seen < 0) await sleep(5);
    return async () => {
      await sleep(50);
      socket.destroy();
      return seen;
    };
  }

  stop(): void {
    this.#child.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #answers(): Promise<boolean> {
    return await new Promise((resolve) => {
      const socket = net.connect(this.port, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      });
      socket.on("error", () => {
        resolve(false);
      });
    });
  }
}

/** The locks of the packages beside this file. They are not a part of this project's types. */
export async function peersOn(server: BenchServer): Promise<readonly Lock[]> {
  const { peers } = (await import(new URL("./peers.mjs", import.meta.url).href)) as {
    readonly peers: (
      ioredis: () => unknown,
      nodeRedis: () => Promise<unknown>,
    ) => Promise<readonly Lock[]>;
  };
  return await peers(
    () => server.ioredis(),
    async () => server.nodeRedis(),
  );
}

/** Deletes what is still ours: the least that a release can be. */
const DELETE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** `SET NX PX` and a compare-and-delete, which nobody could wait for. */
export async function rawOn(server: BenchServer): Promise<readonly Lock[]> {
  const [one, two] = [server.ioredis(), await server.nodeRedis()];
  let serial = 0;
  return [
    {
      name: "SET NX PX",
      library: "ioredis",
      take: async (key) => {
        serial += 1;
        const value = `holder-${serial}`;
        await one.set(key, value, "PX", 30_000, "NX");
        return async () => one.eval(DELETE, 1, key, value);
      },
    },
    {
      name: "SET NX PX",
      library: "node-redis",
      take: async (key) => {
        serial += 1;
        const value = `holder-${serial}`;
        await two.sendCommand(["SET", key, value, "NX", "PX", "30000"]);
        return async () => two.eval(DELETE, { keys: [key], arguments: [value] });
      },
    },
  ];
}
