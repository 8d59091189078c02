import { statSync } from "node:fs";
import { expect, it } from "vitest";
import type { Answer, Backend, Granted } from "../../src/core/driver.ts";
import { MAX_TOKEN } from "../../src/core/fencing-token.ts";
import { loadClient, SqliteClient } from "../../src/drivers/sqlite/client.ts";
import { adopt } from "../../src/drivers/sqlite/identity.ts";
import { statements } from "../../src/drivers/sqlite/sql.ts";
import { SOAK } from "../fixtures/soak.ts";
import { ask, Bench, io, ref } from "../fixtures/sqlite.ts";

const GRANTED = { kind: "granted" };

async function kinds(backend: Backend, name: string, ids: readonly string[]): Promise<string[]> {
  const answers: string[] = [];
  for (const id of ids) answers.push((await backend.attempt(ask(name, id), io)).kind);
  return answers;
}

function token(answer: Answer): bigint {
  return (answer as Granted).tokens?.first ?? 0n;
}

it("serves twenty waiters of several processes in the order of their arrival", async () => {
  const bench = new Bench();
  const backends = await Promise.all(["p1", "p2", "p3"].map(async (id) => await bench.open(id)));
  const at = (n: number): Backend => backends[n % 3]!;
  await at(0).attempt(ask("a", "w0"), io);
  for (let n = 1; n <= 20; n += 1)
    expect(await at(n).attempt(ask("a", `w${n}`), io)).toMatchObject({ queued: true });
  for (let n = 1; n <= 20; n += 1) {
    await at(n - 1).release([ref("a", `w${n - 1}`)], io);
    for (let other = n + 1; other <= 20; other += 1)
      expect(await at(other).attempt(ask("a", `w${other}`, { join: "kept" }), io)).toMatchObject({
        kind: "busy",
      });
    expect(await at(n).attempt(ask("a", `w${n}`, { join: "kept" }), io)).toMatchObject(GRANTED);
  }
  await bench.close();
});

it("skips a head that lets its offer pass, and lets it back in at its old place", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  await kinds(one, "a", ["holder", "first", "second", "third"]);
  await one.release([ref("a", "holder")], io);
  await bench.clock.advance(2999);
  const kept = async (id: string) => one.attempt(ask("a", id, { join: "kept" }), io);
  expect(await kept("second")).toMatchObject({ kind: "busy", blockedBy: "queue" });
  await bench.clock.advance(1);
  expect(await kept("third")).toMatchObject({ kind: "busy", blockedBy: "queue" });
  expect(await kept("second")).toMatchObject({ kind: "granted", takenOver: false });
  expect(await kept("first")).toMatchObject({ kind: "busy", blockedBy: "lease" });
  expect((await one.inspect("a", io)).waiters.map((w) => w.grantId)).toEqual(["first", "third"]);
  await one.release([ref("a", "second")], io);
  expect(await kept("third")).toMatchObject({ kind: "busy" });
  expect(await kept("first")).toMatchObject(GRANTED);
  await bench.close();
});

it("an offer after an expiry begins when an asker sees the vacancy, and a lock-delay comes first", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const lockDelayMs = 500;
  await one.attempt(ask("a", "holder", { ttlMs: 1000, lockDelayMs }), io);
  expect(await one.attempt(ask("a", "head"), io)).toMatchObject({ askAgainMs: 1500 });
  expect(await one.attempt(ask("a", "next"), io)).toMatchObject({ askAgainMs: 4500 });
  await bench.clock.advance(1499);
  expect(await one.attempt(ask("a", "next"), io)).toMatchObject({ blockedBy: "lock-delay" });
  await bench.clock.advance(1000);
  expect(await one.attempt(ask("a", "next"), io)).toMatchObject({
    blockedBy: "queue",
    askAgainMs: 3000,
  });
  expect(await one.attempt(ask("a", "head"), io)).toMatchObject({
    kind: "granted",
    takenOver: true,
  });
  await bench.close();
});

it("a released lock has no lock-delay, and the asks that nobody contends need no queue", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const first = await one.attempt(ask("a", "g1", { lockDelayMs: 60_000 }), io);
  await one.release([ref("a", "g1", { lockDelayMs: 60_000 })], io);
  const second = await one.attempt(ask("a", "g2", { tokens: 5 }), io);
  expect(second).toMatchObject({
    takenOver: false,
    previousToken: token(first),
    tokens: { count: 5 },
  });
  await one.release([ref("a", "g2")], io);
  expect(token(await one.attempt(ask("a", "g3"), io))).toBeGreaterThan(token(second) + 4n);
  await bench.close();
});

it("a shared ask does not overtake an exclusive waiter, and shared waiters enter together", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const shared = async (id: string) => one.attempt(ask("a", id, { mode: "shared" }), io);
  expect(await shared("r1")).toMatchObject(GRANTED);
  expect(await shared("r2")).toMatchObject(GRANTED);
  expect(await one.attempt(ask("a", "w1"), io)).toMatchObject({ blockedBy: "lease" });
  expect(await shared("r3")).toMatchObject({ kind: "busy", queued: true, blockedBy: "queue" });
  expect(await shared("r4")).toMatchObject({ kind: "busy" });
  const back = ["r1", "r2"].map((id) => ref("a", id, { mode: "shared" }));
  expect(await one.release(back, io)).toEqual([{ kind: "released" }, { kind: "released" }]);
  expect(await one.attempt(ask("a", "w1"), io)).toMatchObject(GRANTED);
  await one.release([ref("a", "w1")], io);
  expect(await shared("r4")).toMatchObject(GRANTED);
  expect(await shared("r3")).toMatchObject(GRANTED);
  await bench.close();
});

it("gives permits up to their count, and refuses another count while they are in use", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const permit = async (id: string, permits = 2) =>
    one.attempt(ask("s", id, { mode: "permits", permits }), io);
  expect(await permit("p1")).toMatchObject({ kind: "granted", tokens: null });
  expect(await permit("p2")).toMatchObject(GRANTED);
  expect(await permit("p3")).toMatchObject({ kind: "busy", queued: true });
  expect(await permit("p4", 3)).toEqual({ kind: "mismatch", permits: 2 });
  await one.release([ref("s", "p1", { mode: "permits" })], io);
  expect(await permit("p5")).toMatchObject({ kind: "busy" });
  expect(await permit("p3")).toMatchObject(GRANTED);
  const all = ["p2", "p3", "p5"].map((id) => ref("s", id, { mode: "permits" }));
  await one.release(all, io);
  expect(await permit("p6", 3)).toMatchObject(GRANTED);
  await bench.close();
});

it("a tombstone refuses a late ask, a vanished entry is not made again", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  expect(await one.release([ref("a", "late", { refuseLateMs: 60_000 })], io)).toEqual([
    { kind: "gone", reason: "expired" },
  ]);
  expect(await one.attempt(ask("a", "late"), io)).toEqual({ kind: "vanished" });
  expect(await one.attempt(ask("a", "never", { join: "kept" }), io)).toEqual({ kind: "vanished" });
  await bench.clock.advance(60_001);
  expect(await one.attempt(ask("a", "late"), io)).toMatchObject(GRANTED);
  await bench.close();
});

it("revoking frees that grant only, and its holder learns why", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  await one.attempt(ask("a", "g1", { lockDelayMs: 1000 }), io);
  const revoke = async (grantId: string, now: boolean) =>
    one.revoke({ name: "a", grantId, now }, io);
  expect(await revoke("other", true)).toEqual({ kind: "gone", reason: "taken" });
  expect(await revoke("g1", false)).toEqual({ kind: "released" });
  expect(await one.attempt(ask("a", "g2", { join: "no" }), io)).toMatchObject({
    blockedBy: "lock-delay",
    askAgainMs: 1000,
  });
  expect(await one.renew([ref("a", "g1")], io)).toEqual([{ kind: "gone", reason: "revoked" }]);
  expect(await revoke("g1", true)).toEqual({ kind: "released" });
  expect(await one.attempt(ask("a", "g2"), io)).toMatchObject({ takenOver: true, kind: "granted" });
  expect(await one.attempt(ask("a", "g1"), io)).toEqual({ kind: "vanished" });
  await bench.close();
});

it("exchanges a lease once, with a larger token", async () => {
  const bench = new Bench();
  const [one, two] = [await bench.open("p1"), await bench.open("p2")];
  const first = await one.attempt(ask("a", "g1"), io);
  const second = await two.exchange!("g1", ask("a", "g2"), io);
  expect(second).toMatchObject({ kind: "granted", takenOver: false, previousToken: token(first) });
  expect(token(second as Granted)).toBeGreaterThan(token(first));
  expect(await two.exchange!("g1", ask("a", "g2"), io)).toEqual(second);
  const gone = { kind: "gone", reason: "taken" };
  expect(await two.exchange!("g1", ask("a", "g3"), io)).toEqual(gone);
  expect(await one.renew([ref("a", "g1")], io)).toEqual([gone]);
  await bench.close();
});

it("tokens beyond 2^53 keep every digit, up to the largest and no further", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const above = 2n ** 61n + 1n;
  for (const mode of ["exclusive", "shared"] as const) {
    const granted = await one.attempt(ask(mode, "g1", { mode, above }), io);
    expect(token(granted)).toBe(above + 1n);
    expect(await one.attempt(ask(mode, "g1", { mode }), io)).toEqual(granted);
    expect((await one.inspect(mode, io)).holders[0]?.token).toBe(above + 1n);
    const raiseTo = 2n ** 61n + 1001n;
    await one.release([ref(mode, "g1", { mode, raiseTo })], io);
    const next = await one.attempt(ask(mode, "g2", { mode, tokens: 1 }), io);
    expect(next).toMatchObject({ tokens: { first: raiseTo + 1n }, previousToken: above + 1n });
  }
  await one.release([ref("exclusive", "g2")], io);
  const last = await one.attempt(ask("exclusive", "g3", { above: MAX_TOKEN - 1n }), io);
  expect(token(last)).toBe(MAX_TOKEN);
  await one.release([ref("exclusive", "g3")], io);
  await expect(one.attempt(ask("exclusive", "g4"), io)).rejects.toMatchObject({ kind: "config" });
  await bench.close();
});

it("tokens rise over names whose rows were folded away, also when the wall clock went back", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const before = token(await one.attempt(ask("a", "g1"), io));
  await one.release([ref("a", "g1")], io);
  await bench.clock.advance(61_000);
  for (let n = 0; n < 600; n += 1) {
    await one.attempt(ask("churn", `c${n}`), io);
    await one.release([ref("churn", `c${n}`)], io);
  }
  bench.clock.step(-3_600_000);
  const after = await one.attempt(ask("a", "g2"), io);
  // Its row is gone, so the previous token is not known any more, but the new one is above it.
  expect(after).toMatchObject({ previousToken: null });
  expect(token(after)).toBeGreaterThan(before);
  await bench.close();
});

it("ten thousand names leave no more behind than a thousand", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const db = new SqliteClient((await loadClient()).open(bench.path), true);
  const size = (): { rows: number; bytes: number } => {
    const row = db.get<{ n: number }>({
      name: "rows",
      text: "SELECT (SELECT count(*) FROM ringfence_locks) + (SELECT count(*) FROM ringfence_tombs) AS n",
    });
    const bytes = statSync(bench.path).size + statSync(`${bench.path}-wal`).size;
    return { rows: row?.n ?? 0, bytes };
  };
  const cycles = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n += 1) {
      await one.attempt(ask(`name-${n}`, `g${n}`), io);
      await one.release([ref(`name-${n}`, `g${n}`)], io);
    }
  };
  await cycles(0, 4000);
  const early = size();
  await cycles(4000, SOAK ? 200_000 : 10_000);
  const late = size();
  expect(early.rows).toBeLessThan(2600);
  expect(late.rows).toBeLessThan(2600);
  expect(late.bytes).toBeLessThan(early.bytes + 1024 * 1024);
  db.close();
  await bench.close();
}, 120_000);

it("another boot voids leases on a local file, and successors learn of it", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const first = await one.attempt(ask("a", "g1", { ttlMs: 3_600_000 }), io);
  await kinds(one, "a", ["waiting"]);
  const two = await bench.open("p2", {}, { bootId: "boot-2" });
  const second = await two.attempt(ask("a", "g2"), io);
  expect(second).toMatchObject({ kind: "granted", takenOver: true });
  expect(token(second)).toBeGreaterThan(token(first));
  await bench.close();
});

it("another boot honours leases on a file system that hosts may share, until their wall end plus a ttl", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  await one.attempt(ask("a", "g1", { ttlMs: 1000 }), io);
  await one.attempt(ask("r", "g2", { ttlMs: 1000, mode: "shared" }), io);
  const client = new SqliteClient((await loadClient()).open(bench.path), true);
  const facts = { sharing: "unknown", file: bench.path } as const;
  // 400 ms later, by a monotonic clock that began anew.
  client.transaction(() => {
    const me = { boot: "boot-2", clock: "time-1" };
    adopt(client, statements("ringfence_"), {
      ...facts,
      me,
      now: bench.clock.mono(),
      wall: bench.clock.wall() + 400,
    });
  });
  client.close();
  const two = await bench.open("p2", {}, { bootId: "boot-2" });
  expect(await two.attempt(ask("a", "g3", { join: "no" }), io)).toMatchObject({
    kind: "busy",
    askAgainMs: 1600,
  });
  await bench.clock.advance(1599);
  expect(await kinds(two, "r", ["g4"])).toEqual(["busy"]);
  await bench.clock.advance(1);
  expect(await two.attempt(ask("a", "g3"), io)).toMatchObject({ kind: "granted", takenOver: true });
  expect(await one.renew([ref("a", "g1")], io)).toEqual([{ kind: "gone", reason: "taken" }]);
  await bench.close();
});

it("lists what is held or waited for by encoded bytes, page by page", async () => {
  const bench = new Bench();
  const one = await bench.open("p1");
  const names = ["jobs/é", "jobs/1", "jobs/b", "jobs/a b", "other"];
  for (const name of names) await one.attempt(ask(name, `g-${name}`), io);
  await one.attempt(ask("jobs/gone", "x"), io);
  await one.release([ref("jobs/gone", "x")], io);
  const page = await one.list({ prefix: "jobs/", limit: 3 }, io);
  expect(page.names).toEqual(["jobs/é", "jobs/1", "jobs/a b"]);
  const rest = await one.list({ prefix: "jobs/", limit: 3, cursor: page.cursor ?? "" }, io);
  expect(rest).toEqual({ names: ["jobs/b"] });
  await bench.close();
});

it("two managers in one process wake each other by the bell", async () => {
  const bench = new Bench();
  const [one, two] = [await bench.open("same"), await bench.open("same")];
  await one.attempt(ask("a", "g1"), io);
  await two.attempt(ask("a", "g2"), io);
  await one.release([ref("a", "g1")], io);
  await expect.poll(() => bench.notices).toContainEqual({ kind: "wake", grantId: "g2" });
  expect(await two.attempt(ask("a", "g2", { join: "kept" }), io)).toMatchObject(GRANTED);
  await bench.close();
});
