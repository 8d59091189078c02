import { cpSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, it } from "vitest";
import { type Dialer, dialerOf, type Wire } from "../../src/drivers/redis/client.ts";
import { GIVE_BACK, TAKE } from "../../src/drivers/redis/quick-scripts.ts";
import { ATTEMPT, INSPECT, RELEASE, type Statement } from "../../src/drivers/redis/scripts.ts";
import { type Host, simDialer } from "../../src/lab/servers/redis-lock-link.ts";
import { RedisPlace } from "../../src/lab/servers/redis-place.ts";
import { hashOf } from "../../src/lab/servers/redis-words.ts";
import { World } from "../../src/lab/sim/world.ts";
import {
  describeRedis,
  RedisServer,
  startReplicated,
  stopAfter,
} from "../fixtures/redis-server.ts";

/** A server, and how it is asked: the real one, or the model. */
interface Side {
  dial(onEnd?: () => void): Promise<Wire>;
  /** Waits for something that the server, or the way to it, does in its own time. */
  wait<T>(work: Promise<T>): Promise<T>;
  /** Dies, and starts again: with what its file has, or had at `mark`. */
  restart(data: "file" | "older"): Promise<void>;
  /** What is on the disk now is what is left after a restart with older data. */
  mark(): Promise<void>;
}

const KEYS = ["l", "q", "c", "r"].map((part) => `ringfence:n:{a}:${part}`);

const byHash = ({ text }: Statement, keys: readonly string[], ...args: string[]): string[] => [
  ...["evalsha", hashOf(text), String(keys.length)],
  ...[...keys, ...args],
];
const byText = ({ text }: Statement, keys: readonly string[], ...args: string[]): string[] => [
  ...["eval", text, String(keys.length)],
  ...[...keys, ...args],
];
const ask = (id: string, join: string): string[] => [
  ...[id, "e", "1", "100000", "0", join, "1", "", `wake:${id}`, `holder of ${id}`],
];

/** What was answered, without times and tokens. */
async function told(side: Side, wire: Wire, command: readonly string[]): Promise<unknown> {
  const [outcome] = await side.wait(wire.sendAll([command]));
  if (outcome?.ok === true)
    return JSON.parse(JSON.stringify(outcome.value).replaceAll(/\d{4,}/g, "0")) as unknown;
  return outcome?.error instanceof Error ? outcome.error.message.split(" ")[0] : "no error";
}

/** `which`: 0 is the primary. */
function modelled(world: World, place: RedisPlace, which = 0): Side {
  const host = (): Host => place.servers[which] ?? place.primary;
  const dialer = simDialer(world, place.startClient(`A${which}`), host);
  const wait = async <T>(work: Promise<T>): Promise<T> => {
    const state = { done: false };
    const settled = work.finally(() => {
      state.done = true;
    });
    const until = world.now + 20_000;
    while (!state.done && world.now < until) await world.run(world.now + 1);
    return await settled;
  };
  return {
    wait,
    dial: async (onEnd = () => undefined) => await wait(dialer.dial(null, onEnd)),
    restart: async (data) => {
      place.primary.restart(data === "file" ? "page-cache" : "synced");
      await world.run(world.now + 10);
    },
    // Its disk is synced once in a second.
    mark: async () => world.run(world.now + 1001),
  };
}

/** `dialer` and everything that it makes end with the test. */
function real(server: RedisServer, dialer: Dialer): Side {
  const folder = join(server.folder, "appendonlydir");
  return {
    wait: async (work) => await work,
    dial: async (onEnd = () => undefined) => await dialer.dial(null, onEnd),
    restart: async (data) => {
      await server.kill();
      if (data === "older" && existsSync(folder)) {
        rmSync(folder, { recursive: true });
        cpSync(`${folder}.older`, folder, { recursive: true });
      }
      await server.restart();
    },
    mark: async () => {
      if (existsSync(folder)) cpSync(folder, `${folder}.older`, { recursive: true });
      return Promise.resolve();
    },
  };
}

async function realDialer(server: RedisServer): Promise<Dialer> {
  return stopAfter(await dialerOf(new Redis({ port: server.port, lazyConnect: true })));
}

/** One server, from its first script to the third start. */
async function lifeOf(side: Side): Promise<readonly unknown[]> {
  const log: unknown[] = [];
  let ends = 0;
  const wire = await side.dial(() => {
    ends += 1;
  });
  const say = async (command: readonly string[], at = wire): Promise<void> => {
    log.push(await told(side, at, command));
  };
  const lock = KEYS.slice(0, 1);
  await say(byHash(INSPECT, KEYS));
  await say(byText(INSPECT, KEYS));
  await say(byHash(INSPECT, KEYS));
  await say(byText(TAKE, lock, "A|0|100000|holder of A"));
  // In the order in which they were sent, known or not.
  const [quick, unknown, again] = await side.wait(
    wire.sendAll([
      byHash(GIVE_BACK, lock, "A"),
      byHash(RELEASE, KEYS, "A", "0", ""),
      byHash(TAKE, lock, "A|0|100000|holder of A"),
    ]),
  );
  log.push([quick?.ok, unknown?.ok, again?.ok]);
  // Behind three others its silence is forgiven for a minute, however slow the machine is; then they leave.
  const line = ["W1", "W2", "W3", "B"].map((id) => byText(ATTEMPT, KEYS, ...ask(id, "yes")));
  log.push((await side.wait(wire.sendAll(line))).map(({ ok }) => ok));
  for (const id of ["W1", "W2", "W3"]) await say(byText(RELEASE, KEYS, id, "0", ""));
  await say(["PING"]);

  const listener = await side.dial();
  let heard: (message: string) => void = () => undefined;
  const message = new Promise<string>((resolve) => (heard = resolve));
  await side.wait(
    listener.subscribe("wake:B", (text) => {
      heard(text);
    }),
  );
  await side.mark();
  await say(byText(RELEASE, KEYS, "A", "0", ""));
  log.push(await side.wait(message));
  await say(byHash(ATTEMPT, KEYS, ...ask("B", "kept")));

  for (const data of ["older", "file"] as const) {
    await side.restart(data);
    log.push(data, ends);
    const anew = await side.dial();
    await say(byHash(ATTEMPT, KEYS, ...ask("C", "no")), anew);
    await say(byText(INSPECT, KEYS), anew);
    log.push(await told(side, wire, ["PING"]).then((answer) => answer !== "PONG"));
    anew.destroy();
  }
  return log;
}

/** A grant at the primary, and what the replica says. */
async function copiesOf([primary, replica]: readonly Side[]): Promise<readonly unknown[]> {
  if (primary === undefined || replica === undefined) throw new Error("no servers");
  const [first, second] = [await primary.dial(), await replica.dial()];
  const log = [
    await told(primary, first, byHash(ATTEMPT, KEYS, ...ask("A", "no"))),
    await told(primary, first, byText(ATTEMPT, KEYS, ...ask("A", "no"))),
    await told(primary, first, ["WAIT", "1", "5000"]),
    // Only reads, and is answered; the other writes.
    await told(replica, second, byText(ATTEMPT, KEYS, ...ask("B", "no"))),
    await told(replica, second, byText(ATTEMPT, KEYS, ...ask("B", "yes"))),
  ];
  const [, , copies] = (await told(primary, first, ["ROLE"])) as [string, unknown, unknown[]];
  return [...log, copies.length];
}

describeRedis("a connection to the modelled Redis", () => {
  it.each([
    ["without a file", "no"],
    ["with an append-only file", "everysec"],
  ] as const)(
    "answers as a real one does, over two restarts: %s",
    { timeout: 90_000 },
    async (_what, appendOnly) => {
      const file = ["--appendonly", "yes", "--appendfsync", "always"];
      const server = stopAfter(await RedisServer.start(...(appendOnly === "no" ? [] : file)));
      const expected = await lifeOf(real(server, await realDialer(server)));
      const world = new World({ seed: 1 });
      const place = new RedisPlace(world, { appendOnly });
      expect(await lifeOf(modelled(world, place))).toEqual(expected);
      expect(expected).toContain("NOSCRIPT");
      expect(JSON.stringify(expected)).toContain('"B"');
    },
  );

  it("answers as a primary does and as its replica does", { timeout: 90_000 }, async () => {
    const { primary, replicas } = await startReplicated(1);
    const servers = [primary, ...replicas].map(stopAfter);
    const sides = await Promise.all(
      servers.map(async (server) => real(server, await realDialer(server))),
    );
    const expected = await copiesOf(sides);
    const world = new World({ seed: 1 });
    const place = new RedisPlace(world, { replicas: 1 });
    const models = place.servers.map((_, i) => modelled(world, place, i));
    expect(await copiesOf(models)).toEqual(expected);
    expect(expected).toEqual([
      "NOSCRIPT",
      [1, "0", 1, 0, "", 0, 1],
      1,
      [0, 0, "lease", "holder of A", 0, -1],
      "READONLY",
      1,
    ]);
  });
});
