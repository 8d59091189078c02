import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Call } from "../../src/drivers/redis/connection.ts";
import {
  EXTEND,
  INSPECT,
  RELEASE,
  RESTORE,
  REVOKE,
  TAKE,
  UNDO,
  WRITE_BACK,
} from "../../src/drivers/redlock/scripts.ts";
import { emptyRedlockState, runScript } from "../../src/lab/servers/redlock-state.ts";
import { FakeRandom } from "../../src/testing/index.ts";
import { describeRedis, RedisServer } from "../fixtures/redis-server.ts";
import { size } from "../fixtures/soak.ts";

const LONG = 100_000;
/** Over before the next call, on both sides: whoever uses it then waits. */
const SHORT = 1;
const PAUSE_MS = 3;
/** Ahead of every clock, so that both sides mint the same numbers. */
const AHEAD = 3_000_000_000_000_000n;

describeRedis("one server of a Redlock, as the simulator has it", () => {
  let server: RedisServer;
  let redis: Redis;
  beforeAll(async () => {
    server = await RedisServer.start();
    redis = new Redis({ port: server.port, host: "127.0.0.1", maxRetriesPerRequest: 0 });
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  it("answers every trace as the scripts do on a real server", async () => {
    let calls = 0;
    const answers = new Map<string, Set<string>>();
    for (let seed = 1; seed <= size(20, 2000); seed += 1) {
      const random = new FakeRandom(seed);
      const state = emptyRedlockState();
      await redis.flushall();
      const trace: string[] = [];
      for (let step = 0; step < 40; step += 1) {
        const call = step === 0 ? ahead() : callOf(random);
        const us = BigInt(Math.floor((performance.timeOrigin + performance.now()) * 1000));
        const { text } = call.statement;
        const real: unknown = await redis.eval(text, call.keys.length, ...call.keys, ...call.args);
        const modelled = runScript(state, us, call);
        trace.push(`${call.statement.name} ${call.args.join(" ")}`);
        expect(timeless(modelled), trace.join("\n")).toEqual(timeless(real));
        const kind = Array.isArray(real) ? String(real[0]) : String(real);
        const kinds = answers.get(call.statement.name) ?? new Set();
        answers.set(call.statement.name, kinds.add(kind));
        calls += 1;
        if (call.args.includes(String(SHORT)))
          await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
    expect(calls).toBe(size(20, 2000) * 40);
    // Not vacuous: each script gave each of its answers, but for the end of the numbers.
    const told = Object.fromEntries(
      [...answers].map(([name, kinds]) => [name, [...kinds].sort().join()]),
    );
    expect(told).toEqual({
      take: "0,1,2,3",
      "write-back": "0,1",
      undo: "0,1",
      extend: "0,1",
      restore: "0,1",
      release: "0,1",
      revoke: "0,1",
      inspect: "0,1,2",
    });
  });

  it("mints no number beyond the last, on both sides", async () => {
    const state = emptyRedlockState();
    await redis.flushall();
    const last = 4_611_686_018_427_387_903n;
    for (const call of [
      take("x", "1", LONG),
      { ...release("x"), args: ["x", "0", String(last)] },
      take("y", "2", LONG),
    ]) {
      const real: unknown = await redis.eval(
        call.statement.text,
        call.keys.length,
        ...call.keys,
        ...call.args,
      );
      const us = BigInt(Math.floor((performance.timeOrigin + performance.now()) * 1000));
      const kind = (reply: unknown): unknown => (reply as unknown[])[0];
      expect(kind(runScript(state, us, call))).toBe(kind(real));
      if (call.args[0] === "y") expect(kind(real)).toBe(4);
    }
  });
});

const buried = (id: string, value?: string): string =>
  `{n}:t:${id}${value === undefined ? "" : `:${value}`}`;

function take(id: string, value: string, ttl: number, from = "", delay = 0): Call {
  return {
    statement: TAKE,
    keys: ["{n}:l", buried(id), buried(id, value), buried(from)],
    args: [id, value, String(ttl), String(delay), `holder of ${id}`, from],
  };
}

function release(id: string): Call {
  return { statement: RELEASE, keys: ["{n}:l", buried(id)], args: [id, "0", ""] };
}

/** A write-back to a counter that is ahead: taken, written and released in the first steps of each trace. */
function ahead(): Call {
  return {
    statement: RESTORE,
    keys: ["{n}:l", buried("start"), buried("start", "0")],
    args: ["start", "0", String(SHORT), "0", "nobody", String(AHEAD), "1", "", "0"],
  };
}

function callOf(random: FakeRandom): Call {
  const one = <T>(options: readonly T[]): T => options[Math.floor(random.unit() * options.length)]!;
  const [id, value] = [one(["a", "b"]), one(["1", "2"])];
  const ttl = one([LONG, LONG, SHORT]);
  const delay = one([0, 0, LONG]);
  const lock = "{n}:l";
  const counter = String(AHEAD + BigInt(1 + Math.floor(random.unit() * 6)));
  switch (Math.floor(random.unit() * 12)) {
    case 0:
      return {
        statement: UNDO,
        keys: [lock, buried(id, value)],
        args: [id, value, one(["0", "0", String(LONG)])],
      };
    case 1:
      return {
        statement: EXTEND,
        keys: [lock, buried(id)],
        args: [id, String(ttl), String(delay)],
      };
    case 2:
      return {
        statement: RESTORE,
        keys: [lock, buried(id), buried(id, value)],
        args: [id, value, String(ttl), "0", "restored", counter, one(["1", "8"]), "", "0"],
      };
    case 3:
      return {
        statement: RELEASE,
        keys: [lock, buried(id)],
        args: [id, one(["0", "0", "0", String(LONG)]), one(["", String(AHEAD + 50n)])],
      };
    case 4:
      return one([
        { statement: REVOKE, keys: [lock, buried(id)], args: [id, one(["0", "1"])] },
        release(id),
      ]);
    case 5:
    case 6:
      return { statement: INSPECT, keys: [lock], args: [] };
    case 7:
    case 8:
      return {
        statement: WRITE_BACK,
        keys: [lock],
        args: [id, value, counter, String(AHEAD + 10n), one(["1", "4"])],
      };
    case 9:
      return take(id, value, LONG, one(["a", "b"].filter((other) => other !== id)));
    default:
      return take(id, value, ttl, "", one([0, 0, 0, SHORT]) === SHORT ? LONG : delay);
  }
}

/** What is left of a reply when its times are taken out: how long from now, and since when. */
function timeless(reply: unknown): unknown {
  if (!Array.isArray(reply)) return reply;
  const cells = reply as readonly unknown[];
  if (cells[0] === 0 && cells.length === 4) return cells.slice(0, 3);
  if (cells[0] === 1 && cells.length === 8) return [...cells.slice(0, 5), cells[7]];
  return cells[0] === 2 ? [2] : cells;
}
