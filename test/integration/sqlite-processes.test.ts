import { chmodSync } from "node:fs";
import { expect, it } from "vitest";
import type { Answer, Granted } from "../../src/core/driver.ts";
import { SOAK } from "../fixtures/soak.ts";
import { ask, newPath, ref, Worker } from "../fixtures/sqlite.ts";

type Plain = Exclude<Answer, Granted> | (Granted & { tokens: { first: string } });

async function pair(): Promise<[Worker, Worker]> {
  const path = newPath();
  return await Promise.all([Worker.start({ path }), Worker.start({ path })]);
}

it("two processes exclude each other, and the successor's token is larger", async () => {
  const [one, two] = await pair();
  const first = await one.call<Plain>("attempt", ask("a", "g1"));
  expect(first).toMatchObject({ kind: "granted", takenOver: false });
  expect(await two.call("attempt", ask("a", "g2"))).toMatchObject({
    kind: "busy",
    queued: true,
    blockedBy: "lease",
    holder: "holder of g1",
  });
  expect((await one.release(ref("a", "g1"))).answers).toEqual([{ kind: "released" }]);
  const second = await two.call<Plain>("attempt", ask("a", "g2", { join: "kept" }));
  expect(second).toMatchObject({ kind: "granted", takenOver: false });
  expect(BigInt((second as { tokens: { first: string } }).tokens.first)).toBeGreaterThan(
    BigInt((first as { tokens: { first: string } }).tokens.first),
  );
});

it("a killed holder's lock goes to the waiter at its ttl, which learns that it was not released", async () => {
  const [holder, waiter] = await pair();
  const ttlMs = 1500;
  await waiter.call("open");
  const before = performance.now();
  await holder.call("attempt", ask("a", "g1", { ttlMs }));
  await holder.kill("SIGKILL");
  const busy = await waiter.call<Plain>("attempt", ask("a", "g2", { ttlMs }));
  expect(busy).toMatchObject({ kind: "busy", blockedBy: "lease" });
  // The wait that the answer names is all that is needed: no wake comes for a holder that vanished.
  const { askAgainMs } = busy as { askAgainMs: number };
  expect(askAgainMs).toBeLessThanOrEqual(ttlMs);
  await new Promise((done) => setTimeout(done, Math.ceil(askAgainMs)));
  const answer = await waiter.call<Plain>("attempt", ask("a", "g2", { ttlMs, join: "kept" }));
  expect(answer).toMatchObject({ kind: "granted", takenOver: true });
  expect(performance.now() - before).toBeGreaterThanOrEqual(ttlMs);
});

it("twenty processes create one file at once, and all of them can lock", async () => {
  const path = newPath();
  const workers = await Promise.all(
    Array.from({ length: 20 }, async () => await Worker.start({ path })),
  );
  const answers = await Promise.all(
    workers.map(async (worker, n) => {
      const answer = await worker.call<Plain>("attempt", ask(`name-${n}`, `g${n}`));
      await worker.kill("SIGKILL");
      return answer.kind;
    }),
  );
  expect(answers).toEqual(Array.from({ length: 20 }, () => "granted"));
}, 60_000);

it("a release in one process rings the waiter's doorbell in another", async () => {
  const [one, two] = await pair();
  const rounds = SOAK ? 500 : 20;
  const grant = async (worker: Worker, n: number) =>
    worker.call<Plain>("attempt", ask("a", `g${n}`));
  await grant(one, 0);
  for (let n = 1; n <= rounds; n += 1) {
    const [holder, waiter] = n % 2 === 1 ? [one, two] : [two, one];
    expect(await grant(waiter, n)).toMatchObject({ kind: "busy", queued: true });
    const ring = waiter.nextNotice();
    await holder.release(ref("a", `g${n - 1}`));
    // Nothing here polls: the wake can only have come from the bell.
    const heard = await ring;
    expect(heard.notice).toEqual({ kind: "wake", grantId: `g${n}` });
    expect(await grant(waiter, n)).toMatchObject({ kind: "granted" });
  }
});

it("four contending processes all get their turn", async () => {
  const path = newPath();
  const workers = await Promise.all([0, 1, 2, 3].map(async () => await Worker.start({ path })));
  await Promise.all(workers.map(async (worker) => await worker.call("open")));
  const counts = await Promise.all(
    workers.map(async (worker) => await worker.call<number>("cycle", "a", SOAK ? 10_000 : 1500)),
  );
  const total = counts.reduce((sum, count) => sum + count, 0);
  // FIFO: each waits for every other one between two of its own turns.
  expect(Math.min(...counts)).toBeGreaterThan(total / 4 / 2);
}, 90_000);

it("a process under another time namespace is refused, and one under another boot takes over a void file (S53)", async () => {
  const path = newPath();
  const worker = await Worker.start({ path });
  await worker.call("attempt", ask("a", "g1"));
  const stranger = await Worker.start({ path, host: { timeNamespace: "time:[1]" } });
  await expect(stranger.call("open")).rejects.toMatchObject({ code: "config" });
  const later = await Worker.start({ path, host: { bootId: "next-boot" } });
  expect(await later.call("attempt", ask("a", "g2"))).toMatchObject({ kind: "granted" });
  // Whoever is left from before, which cannot be, would be told at its next step.
  expect(await worker.call("renew", [ref("a", "g1")])).toEqual([{ kind: "gone", reason: "taken" }]);
  await expect(worker.call("attempt", ask("b", "g3"))).rejects.toMatchObject({ code: "config" });
});

it("without a boot id only one process may use the file, and the next one may when it has ended", async () => {
  const path = newPath();
  const host = { bootId: null };
  const one = await Worker.start({ path, host });
  expect(await one.call("attempt", ask("a", "g1"))).toMatchObject({ kind: "granted" });
  const two = await Worker.start({ path, host });
  await expect(two.call("open")).rejects.toMatchObject({ code: "config" });
  const knowing = await Worker.start({ path });
  await expect(knowing.call("open")).rejects.toMatchObject({ code: "config" });
  await one.kill("SIGKILL");
  const three = await Worker.start({ path, host });
  expect(await three.call("attempt", ask("a", "g2"))).toMatchObject({ kind: "granted" });
});

it("a file that this user may only read is refused with what to do", async () => {
  const path = newPath();
  const worker = await Worker.start({ path });
  await worker.call("open");
  // Root may write whatever its mode says: there it takes another user, elsewhere another mode.
  const root = process.getuid?.() === 0;
  if (!root) chmodSync(path, 0o400);
  const other = await Worker.start({ path }, root ? { uid: 65_534, gid: 65_534 } : undefined);
  await expect(other.call("open")).rejects.toMatchObject({ code: "config" });
});
