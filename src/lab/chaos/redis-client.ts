import { connect } from "node:net";
import type { ClientProcess, RedisPort } from "../clients/client.ts";
import { type RedisCommand, type RedisReply, SCRIPTS } from "../servers/redis-state.ts";
import { decodeValue, encodeCommand, type RespValue } from "./resp.ts";

/**
 * Commands on a connection of their own, which is ended afterwards; resolves to the last one's answer. Two calls travel on
 * two connections, and what was lost of one cannot be taken for an answer to another.
 * @throws Error for an error reply, or when the connection ends without an answer
 */
export async function call(
  port: number,
  ...commands: readonly (readonly (string | number)[])[]
): Promise<RespValue> {
  return await new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let data: Buffer = Buffer.alloc(0);
    socket.setNoDelay(true);
    socket.on("connect", () => socket.write(commands.map(encodeCommand).join("")));
    let left = commands.length;
    socket.on("data", (chunk: Buffer) => {
      data = Buffer.concat([data, chunk]);
      let answer = decodeValue(data, 0);
      for (; answer !== undefined && left > 1; left -= 1) {
        data = data.subarray(answer.next);
        answer = decodeValue(data, 0);
      }
      if (answer === undefined) return;
      socket.destroy();
      const { value } = answer;
      if (typeof value === "object" && value !== null && "error" in value)
        reject(new Error(value.error));
      else resolve(value);
    });
    socket.on("error", reject);
    socket.on("close", () => {
      reject(new Error("the connection ended without an answer"));
    });
  });
}

/** One section of INFO. */
export async function info(port: number, section: string): Promise<string> {
  const text = await call(port, ["INFO", section]);
  return typeof text === "string" ? text : "";
}

/**
 * KEYS[1] lock, KEYS[2] line. Returns whether there was one to delete. Then the first of the line is told, and is in it no
 * more: nobody looks whether it lives.
 */
const DELETE_AND_TELL = /* lua */ `local gone = redis.call('DEL', KEYS[1])
local first = gone == 1 and redis.call('LPOP', KEYS[2])
if first then redis.call('PUBLISH', first, '') end
return gone`;

function lineOf(key: string): string {
  return `line:${key}`;
}

/** A command of the model as the real server takes it. */
function wordsOf(command: RedisCommand, tells: boolean): readonly (string | number)[] {
  if (tells && command[0] === "DEL")
    return ["EVAL", DELETE_AND_TELL, 2, command[1], lineOf(command[1])];
  if (command[0] !== "EVAL") return command;
  const [, script, keys, args] = command;
  return ["EVAL", SCRIPTS[script], keys.length, ...keys, ...args];
}

/** A real Redis, as naive clients reach it. An answer that does not come is waited for for ever, as in the simulator. */
export class RealRedis implements RedisPort {
  readonly #port: number;
  readonly #tells: boolean;
  #asked = 0;

  /** `tells`: whoever deletes a key tells the first of those who stand in line for it. */
  constructor(port: number, tells = false) {
    this.#port = port;
    this.#tells = tells;
  }

  async call(_client: ClientProcess, command: RedisCommand): Promise<RedisReply> {
    try {
      return (await call(this.#port, wordsOf(command, this.#tells))) as RedisReply;
    } catch {
      // A lock written by hand knows no better than to wait for what never comes.
      return await new Promise<never>(() => undefined);
    }
  }

  async wait(_client: ClientProcess, replicas: number, timeoutMs: number): Promise<number> {
    // WAIT is about its own connection's writes: one of its own comes after the one that is meant.
    const mark = ["SET", "counter:wait", "1"] as const;
    return Number(await call(this.#port, mark, ["WAIT", replicas, timeoutMs]).catch(() => 0));
  }

  /** By keyspace notifications; with `once` by a list of who waits, each with a channel of its own. */
  async subscribe(
    { name }: ClientProcess,
    key: string,
    onMessage: () => void,
    once = false,
  ): Promise<void> {
    if (!once) {
      await this.#hear(`__keyspace@0__:${key}`, (event) => {
        if (event === "del") onMessage();
        return true;
      });
      return;
    }
    this.#asked += 1;
    const me = `wake:${key}:${name}:${this.#asked}`;
    await this.#hear(me, () => {
      onMessage();
      return false;
    });
    await call(this.#port, ["RPUSH", lineOf(key), me]);
  }

  /** Resolves when the channel is listened to; until `onMessage` returns false. */
  async #hear(channel: string, onMessage: (text: unknown) => boolean): Promise<void> {
    await new Promise<void>((resolve) => {
      const connection = listen(this.#port, ["SUBSCRIBE", channel], ([kind, , text]) => {
        if (kind === "subscribe") resolve();
        else if (kind === "message" && !onMessage(text)) connection.close();
      });
    });
  }
}

/** Sends one command on a connection of its own, and hears all that comes of it until that is closed. */
export function listen(
  port: number,
  command: readonly string[],
  onMessage: (message: readonly unknown[]) => void,
): { close(): void } {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.on("connect", () => socket.write(encodeCommand(command)));
  let data: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    data = Buffer.concat([data, chunk]);
    for (let one = decodeValue(data, 0); one !== undefined; one = decodeValue(data, 0)) {
      data = data.subarray(one.next);
      if (Array.isArray(one.value)) onMessage(one.value as unknown[]);
    }
  });
  return { close: () => socket.destroy() };
}
