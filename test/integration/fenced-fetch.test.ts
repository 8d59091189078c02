import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { InvalidArgumentError, LeaseLostError, LeaseReleasedError } from "../../src/core/errors.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { fencedFetch, httpGuard, staleFrom } from "../../src/guards/http/index.ts";
import { memoryGuard, memoryStore } from "../../src/guards/memory/index.ts";
import { createLockManager, type FencedLease } from "../../src/index.ts";

let server: Server;
let url: string;
let seen: IncomingMessage[];
/** What the server does with a request. */
let answer: (
  request: IncomingMessage,
) => { status: number; headers?: Record<string, string> } | null;
const locks = createLockManager(memoryDriver());

beforeEach(async () => {
  seen = [];
  answer = () => ({ status: 200 });
  server = createServer((request, response) => {
    seen.push(request);
    const given = answer(request);
    if (given === null) return;
    response.writeHead(given.status, given.headers).end("body");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const headersSeen = (): unknown[] => seen.map(({ headers }) => headers["ringfence-sequencer"]);

it("sends the sequencer with reads and writes, beside the caller's own headers", async () => {
  await locks.request("a", async (lease) => {
    const send = fencedFetch(lease);
    await send(`${url}/x`);
    await send(new URL(`${url}/x`), { method: "PUT", body: "v", headers: { "x-own": "1" } });
    await send(new Request(`${url}/x`, { method: "POST", body: "v", headers: { "x-own": "2" } }));
    expect(headersSeen()).toEqual([lease.sequencer, lease.sequencer, lease.sequencer]);
    expect(seen.map(({ method, headers }) => [method, headers["x-own"]])).toEqual([
      ["GET", undefined],
      ["PUT", "1"],
      ["POST", "2"],
    ]);
  });
});

it("hands on a sequencer that came from elsewhere", async () => {
  const { sequencer } = await releasedElsewhere();
  await fencedFetch(sequencer)(url);
  expect(headersSeen()).toEqual([sequencer]);
});

it("sends nothing under a lease that is over, and nothing elsewhere than it may", async () => {
  const lease = await locks.acquire("b");
  const send = fencedFetch(lease, { origins: [`${url}/any/path`] });
  await send(url);
  await expect(send("http://127.0.0.1:1/")).rejects.toThrow(InvalidArgumentError);
  await lease.release();
  await expect(send(url)).rejects.toThrow(LeaseReleasedError);
  expect(seen.length).toBe(1);
});

it("does not take the sequencer along on a redirect, unless told to", async () => {
  answer = (request) =>
    request.url === "/to" ? { status: 200 } : { status: 307, headers: { location: "/to" } };
  await locks.request("c", async (lease) => {
    const send = fencedFetch(lease);
    await expect(send(`${url}/from`)).rejects.toThrow(TypeError);
    expect((await send(`${url}/from`, { redirect: "manual" })).status).toBe(307);
    expect(seen.map((request) => request.url)).toEqual(["/from", "/from"]);
    expect((await send(`${url}/from`, { redirect: "follow" })).status).toBe(200);
  });
});

it("aborts what is under way when the lease is lost, and when the caller aborts", async () => {
  answer = () => null;
  const lease = await locks.acquire("d", { ttl: 50, keepalive: "off" });
  const send = fencedFetch(lease);
  const own = new AbortController();
  const cancelled = send(url, { signal: own.signal });
  own.abort(new Error("the caller's own reason"));
  await expect(cancelled).rejects.toThrow("the caller's own reason");
  await expect(send(url)).rejects.toThrow(LeaseLostError);
});

it("refuses what cannot claim", async () => {
  const shared = await locks.acquire("e", { mode: "shared" });
  for (const wrong of [shared, "33", "rf1", 33, null, {}])
    expect(() => fencedFetch(wrong as unknown as FencedLease)).toThrow(InvalidArgumentError);
  await expect(async () => fencedFetch("rf1.a.b.c", { origins: ["nowhere"] })).rejects.toThrow(
    InvalidArgumentError,
  );
  await shared.release();
});

it("reads a refusal as the error that the guard threw, and leaves the body to the caller", async () => {
  const store = memoryStore<string>();
  const fence = httpGuard({ guard: memoryGuard(), db: store });
  const guarded = createServer((request, response) => {
    void fence.node(() => response.end("fine"))(request, response);
  });
  await new Promise<void>((resolve) => guarded.listen(0, "127.0.0.1", resolve));
  const at = `http://127.0.0.1:${(guarded.address() as AddressInfo).port}`;
  const { sequencer } = await releasedElsewhere();
  await locks.request("elsewhere", async (lease) => {
    const fresh = await fencedFetch(lease)(at);
    expect(await staleFrom(fresh)).toBe(null);
    expect(await fresh.text()).toBe("fine");
    const refusal = await fencedFetch(sequencer)(at, { method: "PUT" });
    const stale = await staleFrom(refusal);
    expect(stale).toMatchObject({ resource: "elsewhere", highest: lease.token, step: "claim" });
    expect(await refusal.json()).toMatchObject({ status: 409 });
  });
  expect(await staleFrom(new Response("no problem", { status: 409 }))).toBe(null);
  const type = { "content-type": "application/problem+json" };
  for (const body of ["{", "null", '{"type":"urn:ringfence:stale-token"}'])
    expect(await staleFrom(new Response(body, { status: 409, headers: type }))).toBe(null);
  guarded.closeAllConnections();
  await new Promise((resolve) => guarded.close(resolve));
});

/** A lease whose sequencer went to another process, and that is over. */
async function releasedElsewhere(): Promise<{ readonly sequencer: string }> {
  const lease = await locks.acquire("elsewhere");
  const { sequencer } = lease;
  await lease.release();
  return { sequencer };
}
