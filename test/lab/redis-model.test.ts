import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  execute,
  type RedisCommand,
  type RedisReply,
  type RedisState,
  SCRIPTS,
} from "../../src/lab/servers/redis-state.ts";
import { FakeRandom } from "../../src/testing/index.ts";

/** A real Redis of our own; the model must answer as it does. */
let server: ReturnType<typeof spawn> | undefined;
let redis: Redis;
let folder: string;

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, "close");
  return port;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "ringfence-redis-"));
  const port = await freePort();
  const child = spawn(
    "redis-server",
    ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  server = child;
  await new Promise<void>((resolve, reject) => {
    child.once("error", (error) => {
      reject(
        new Error(`redis-server does not start (apt-get install redis-server): ${error.message}`),
      );
    });
    child.stdout.on("data", (text: Buffer) => {
      if (text.toString().includes("eady to accept connections")) resolve();
    });
  });
  redis = new Redis({ port, host: "127.0.0.1", maxRetriesPerRequest: 0 });
}, 90_000);

afterAll(async () => {
  redis.disconnect();
  if (server?.exitCode === null) {
    server.kill();
    await once(server, "exit");
  }
  await rm(folder, { recursive: true, force: true });
});

async function real(command: RedisCommand): Promise<RedisReply> {
  if (command[0] !== "EVAL") {
    const [name, ...args] = command;
    return (await redis.call(name, ...args.map(String))) as RedisReply;
  }
  const [, script, keys, args] = command;
  return (await redis.eval(SCRIPTS[script], keys.length, ...keys, ...args)) as RedisReply;
}

const LONG = 100_000;
/** Over before the next command, on both sides: whoever asks for it then waits. */
const SHORT = 1;
const PAUSE = 5;

function commandOf(random: FakeRandom): RedisCommand {
  const one = <T>(options: readonly T[]): T => options[Math.floor(random.unit() * options.length)]!;
  const key = one(["a", "b"]);
  const value = one(["x", "y"]);
  const ms = one([LONG, SHORT]);
  const tagged = [key, `counter:${key}`];
  return one<RedisCommand>([
    ["SET", key, value, "NX", "PX", ms],
    ["SET", key, value, "PX", ms],
    ["SET", key, value, "XX"],
    ["SET", key, value, "PXAT", Date.now() + LONG],
    ["GET", key],
    ["DEL", key],
    ["EXISTS", key],
    ["PTTL", key],
    ["INCR", `counter:${key}`],
    ["PEXPIRE", key, ms],
    ["EVAL", "compareAndDelete", [key], [value]],
    ["EVAL", "compareAndExpire", [key], [value, ms]],
    ["EVAL", "takeAndCount", tagged, [value, ms]],
    ["EVAL", "writeBack", tagged, [value, one([2, 3, 9]), one([2, 3, "*"])]],
    ["EVAL", "giveBack", [key], [value]],
  ]);
}

it("the model answers as redis-server does, command by command", { timeout: 90_000 }, async () => {
  await redis.flushall();
  const state: RedisState = { keys: new Map() };
  const random = new FakeRandom(11);
  for (let n = 0; n < 1200; n += 1) {
    const command = commandOf(random);
    const expected = await real(command);
    const { reply } = execute(state, Date.now(), command);
    const short = command.flat().includes(SHORT);
    if (short) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (command[0] === "PTTL" && typeof reply === "number" && reply >= 0) {
      // The two clocks were read at different moments.
      expect(Math.abs(reply - Number(expected))).toBeLessThan(LONG / 2);
      continue;
    }
    expect([n, command, reply]).toEqual([n, command, expected]);
  }
});
