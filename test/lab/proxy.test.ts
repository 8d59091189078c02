import net from "node:net";
import { afterEach, expect, it } from "vitest";
import { TAKE } from "../../src/drivers/redis/quick-scripts.ts";
import * as redlock from "../../src/drivers/redlock/scripts.ts";
import { lineFraming, redisFraming } from "../../src/lab/chaos/framing.ts";
import { Proxy } from "../../src/lab/chaos/proxy.ts";
import { decodeValue, encodeCommand } from "../../src/lab/chaos/resp.ts";
import { commandName, hashOf } from "../../src/lab/servers/redis-words.ts";

const open: { close(): Promise<void> | void }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

/** A server that answers each line with itself, and what it has read. */
async function echo(): Promise<{
  readonly port: number;
  readonly heard: string[];
  readonly left: () => number;
}> {
  const heard: string[] = [];
  let ended = 0;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("end", () => (ended += 1));
    socket.on("data", (data: Buffer) => {
      heard.push(...data.toString().split("\n").filter(Boolean));
      socket.write(data);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push({
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
  return { port: (server.address() as net.AddressInfo).port, heard, left: () => ended };
}

async function way(): Promise<{
  readonly proxy: Proxy;
  readonly heard: string[];
  /** How many connections the server was told the end of. */
  readonly left: () => number;
  readonly client: () => { send(f: string): void; readonly got: string[]; end(): void };
}> {
  const { port, heard, left } = await echo();
  const proxy = await Proxy.to(port, lineFraming);
  open.push(proxy);
  const client = (): { send(f: string): void; readonly got: string[]; end(): void } => {
    const got: string[] = [];
    const socket = net.connect(proxy.port, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.on("data", (data: Buffer) => got.push(...data.toString().split("\n").filter(Boolean)));
    open.push({ close: () => void socket.destroy() });
    return {
      send: (f) => socket.write(`${JSON.stringify({ f })}\n`),
      got,
      end: () => socket.destroy(),
    };
  };
  return { proxy, heard, left, client };
}

const line = (f: string): string => JSON.stringify({ f });

it("carries messages there and back", async () => {
  const { client, heard } = await way();
  const a = client();
  a.send("read");
  await expect.poll(() => a.got).toEqual([line("read")]);
  expect(heard).toEqual([line("read")]);
});

it("holds back one message and what is behind it, and lets it go although its sender has left", async () => {
  const { proxy, client, heard } = await way();
  proxy.up.hold = ({ label }) => label === "write";
  const [a, b] = [client(), client()];
  a.send("write");
  b.send("read");
  await expect.poll(() => b.got).toEqual([line("read")]);
  a.end();
  await expect.poll(() => heard).toEqual([line("read")]);
  proxy.release("up");
  await expect.poll(() => heard).toEqual([line("read"), line("write")]);
});

it("swallows one reply: the work is done, and the connection says nothing more", async () => {
  const { proxy, client, heard } = await way();
  let left = 1;
  proxy.down.dropIf = ({ label }) => label === "write reply" && left-- > 0;
  const a = client();
  a.send("write");
  a.send("read");
  await expect.poll(() => heard.length).toBeGreaterThan(0);
  const b = client();
  b.send("write");
  await expect.poll(() => b.got).toEqual([line("write")]);
  expect(a.got).toEqual([]);
});

it("cuts one direction: what is sent arrives, and no answer comes", async () => {
  const { proxy, client, heard } = await way();
  proxy.down.cut = true;
  const a = client();
  a.send("write");
  await expect.poll(() => heard).toEqual([line("write")]);
  proxy.down.cut = false;
  const b = client();
  b.send("read");
  await expect.poll(() => b.got).toEqual([line("read")]);
  expect(a.got).toEqual([]);
});

it("tells nobody that a side has ended which is cut off: the other one keeps half a connection", async () => {
  const { proxy, client, left } = await way();
  const [a, b] = [client(), client()];
  a.send("read");
  b.send("read");
  await expect.poll(() => [a.got.length, b.got.length]).toEqual([1, 1]);
  proxy.up.cut = true;
  a.end();
  await expect.poll(() => proxy.halves).toBe(1);
  expect(left()).toBe(0);
  proxy.up.cut = false;
  b.end();
  await expect.poll(() => [left(), proxy.halves]).toEqual([1, 1]);
});

it("is silent after some bytes, delays, and leads new connections elsewhere", async () => {
  const { proxy, client } = await way();
  proxy.up.cutAfterBytes = 20;
  const a = client();
  a.send("read");
  await expect.poll(() => a.got).toEqual([line("read")]);
  a.send("write");
  const other = client();
  other.send("read");
  await expect.poll(() => other.got).toEqual([line("read")]);
  expect(a.got).toEqual([line("read")]);
  proxy.up.cutAfterBytes = Infinity;
  proxy.up.delayMs = 100;
  const b = client();
  const sentAt = performance.now();
  b.send("late");
  await expect.poll(() => b.got).toEqual([line("late")]);
  expect(performance.now() - sentAt).toBeGreaterThanOrEqual(99);
  proxy.up.delayMs = 0;
  const elsewhere = await echo();
  proxy.retarget(elsewhere.port);
  const c = client();
  c.send("moved");
  await expect.poll(() => elsewhere.heard).toEqual([line("moved")]);
});

it("knows commands of Redis by their names, scripts by theirs, and replies by what they answer", () => {
  const framing = redisFraming();
  const labels = (found: readonly { readonly label: string }[]): string[] =>
    found.map(({ label }) => label);
  const sent = Buffer.from(encodeCommand(["set", "k", "v"]) + encodeCommand(["GET", "k"]));
  expect(labels(framing.up(sent.subarray(0, 10)))).toEqual([]);
  expect(labels(framing.up(sent.subarray(10)))).toEqual(["SET", "GET"]);
  const reply = Buffer.from("+OK\r\n$-1\r\n*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
  expect(labels(framing.down(reply))).toEqual(["SET reply", "GET reply", "wake"]);
});

it("decodes what RESP2 and RESP3 send", () => {
  const value = (text: string): unknown => decodeValue(Buffer.from(text), 0)?.value;
  expect(value(":12\r\n")).toBe(12);
  expect(value("$3\r\na\r\n\r\n")).toBe("a\r\n");
  expect(value("*2\r\n$1\r\na\r\n*1\r\n_\r\n")).toEqual(["a", [null]]);
  expect(value("%1\r\n+k\r\n:1\r\n")).toEqual(["k", 1]);
  expect(value("-ERR no\r\n")).toEqual({ error: "ERR no" });
  expect(value("$5\r\nabc")).toBeUndefined();
});

it("calls a quick take of the Redis driver an attempt, and Redlock's take by its own name", () => {
  const called = ({ text }: { readonly text: string }): string[] => [
    commandName(["EVAL", text, 1, "key"]),
    commandName(["evalsha", hashOf(text), 1, "key"]),
  ];
  expect(called(TAKE)).toEqual(["attempt", "attempt"]);
  expect(called(redlock.TAKE)).toEqual(["take", "take"]);
});
