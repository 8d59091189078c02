import { expect, it } from "vitest";
import {
  describeRedis,
  RedisServer,
  startReplicated,
  stopAfter,
} from "../fixtures/redis-server.ts";
import { RedlockServers } from "../fixtures/redlock-servers.ts";
import { buildFirst, place, ringfence } from "./ringfence.ts";

buildFirst();
const { env, file } = place();
const call = async (...args: string[]) => ringfence(["doctor", ...args], { env });

interface Report {
  readonly driver: string;
  readonly fencing: string;
  readonly findings: readonly {
    readonly name: string;
    readonly value: string;
    readonly verdict: string;
  }[];
  readonly guarantees: {
    readonly deployment: string;
    readonly cells: readonly {
      readonly fault: string;
      readonly exclusion: string;
      readonly tokens: string;
    }[];
  } | null;
}

async function report(
  ...args: string[]
): Promise<{ readonly code: number | null; readonly report: Report }> {
  const { code, stdout, stderr } = await call(...args, "-o", "json");
  expect(stderr).toBe("");
  return { code, report: JSON.parse(stdout) as Report };
}

const exclusionUnder = ({ guarantees }: Report, fault: string): string | undefined =>
  guarantees?.cells.find((cell) => cell.fault.startsWith(fault))?.exclusion;

describeRedis("ringfence doctor", () => {
  it("tells what a plain Redis is, and prints the row that is true for it", async () => {
    const server = stopAfter(await RedisServer.start());
    const { code, report: plain } = await report(server.url);
    expect([code, plain.driver, plain.fencing]).toEqual([0, "redis", "volatile"]);
    const found = new Map(plain.findings.map(({ name, verdict }) => [name, verdict]));
    expect(found.get("persistence")).toBe("warn");
    expect(found.get("maxmemory-policy")).toBe("ok");
    expect(found.get("clock")).toBe("ok");
    expect(exclusionUnder(plain, "server killed")).toBe("breaks");
    expect(exclusionUnder(plain, "failover")).toBe("cannot");
    await server.command("CONFIG", "SET", "appendonly", "yes");
    await server.command("CONFIG", "SET", "appendfsync", "always");
    const { report: logged } = await report(server.url);
    expect(exclusionUnder(logged, "server killed")).toBe("holds");
    expect(exclusionUnder(logged, "power loss")).toBe("holds");
  });

  it("says that a failover can lose grants where there are replicas", async () => {
    const { primary, replicas } = await startReplicated(1);
    stopAfter(primary);
    for (const replica of replicas) stopAfter(replica);
    const { code, report: replicated } = await report(primary.url);
    expect(code).toBe(0);
    expect(exclusionUnder(replicated, "failover")).toBe("breaks");
    const { code: refused, report: copy } = await report(replicas[0]?.url ?? "");
    expect(refused).toBe(78);
    expect(copy.findings).toContainEqual(
      expect.objectContaining({ name: "role", verdict: "refuse" }),
    );
  });

  it("refuses a server that evicts with 78, unless locks only save work", async () => {
    const server = stopAfter(await RedisServer.start("--maxmemory-policy", "volatile-lru"));
    const { code, stdout } = await call(server.url);
    expect(code).toBe(78);
    expect(stdout).toContain("finding\trefuse\tmaxmemory-policy\tvolatile-lru\t");
    expect(stdout).toMatch(/^fault\tmemory full\tbreaks\t/m);
    const { code: allowed, report: cheap } = await report(`${server.url}?efficiencyOnly=true`);
    expect([allowed, cheap.fencing]).toEqual([0, "none"]);
    expect(cheap.guarantees?.cells.every(({ tokens }) => tokens === "none")).toBe(true);
  });

  it("does the arithmetic of a quorum, and counts who is not there", async () => {
    const servers = stopAfter(await RedlockServers.start(5));
    const { code, report: three } = await report(servers.url);
    expect([code, three.driver]).toEqual([0, "redlock"]);
    expect(three.findings[0]).toMatchObject({ name: "quorum", verdict: "ok" });
    expect(exclusionUnder(three, "1 or more servers restarted")).toBe("breaks");
    const { report: four } = await report(`${servers.url}?quorum=4`);
    expect(exclusionUnder(four, "up to 2 servers restarted")).toBe("holds");
    await servers.all[0]?.kill();
    const { report: less } = await report(servers.url);
    expect(less.guarantees?.deployment).toContain("1 do not answer");
  });

  it("answers 69 where nobody answers, and 64 for two URLs", async () => {
    const server = await RedisServer.start();
    await server.stop();
    expect(await call(server.url)).toMatchObject({ code: 69, stdout: "" });
    expect(await call("memory:", "--store", "memory:")).toMatchObject({ code: 64, stdout: "" });
  });
});

it("answers for the default store, and for a driver without a row", async () => {
  const { code, report: sqlite } = await report();
  expect([code, sqlite.driver]).toEqual([0, "sqlite"]);
  expect(exclusionUnder(sqlite, "wall clock stepped")).toBe("holds");
  const { report: durable } = await report(`sqlite:${file("full.db")}?durability=full`);
  expect(durable.guarantees?.cells.find(({ fault }) => fault === "power loss")?.tokens).toBe(
    "rise",
  );
  const { code: none, stdout } = await call("memory:");
  expect(none).toBe(0);
  expect(stdout).toMatch(/^store\tdriver\tmemory$/m);
  expect(stdout).not.toMatch(/^fault/m);
});
