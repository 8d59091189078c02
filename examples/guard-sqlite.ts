/* A balance in SQLite, guarded in three ways: one transaction, a long job, and a row with its own fence columns. */
import { join } from "node:path";
import Database from "libsql";
import { memoryDriver } from "../src/drivers/memory/index.ts";
import { sqliteGuard } from "../src/guards/sqlite/index.ts";
import { createLockManager } from "../src/index.ts";

export async function main(
  folder: string,
): Promise<{ readonly balance: number; readonly status: string }> {
  const db = new Database(join(folder, "bank.db"));
  db.exec("CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER)");
  db.exec("INSERT INTO account VALUES ('alice', 100)");
  db.exec(
    "CREATE TABLE report (id TEXT PRIMARY KEY, status TEXT, fence_token INTEGER, fence_grant TEXT, fence_scope TEXT)",
  );
  db.exec("INSERT INTO report (id, status) VALUES ('march', 'new')");
  const balanceOf = (): number =>
    (db.prepare("SELECT balance FROM account WHERE id = 'alice'").all()[0] as { balance: number })
      .balance;

  const locks = createLockManager(memoryDriver());
  const guard = sqliteGuard();

  // 1. Claim, body and commit in one transaction. The body is synchronous.
  await locks.request("account/alice", async (lease) => {
    await guard.run(db, "account/alice", lease, (tx) => {
      const next = balanceOf() - 30;
      tx.prepare("UPDATE account SET balance = ? WHERE id = 'alice'").run(next);
    });
  });

  // 2. A long job claims before it reads, works as long as it wants, and verifies in the transaction that writes.
  await locks.request("account/alice", async (lease) => {
    await guard.claim(db, "account/alice", lease);
    const seen = balanceOf();
    const interest = await computeInterest(seen);
    db.exec("BEGIN IMMEDIATE");
    try {
      guard.verify(db, "account/alice", lease);
      db.prepare("UPDATE account SET balance = ? WHERE id = 'alice'").run(seen + interest);
      db.exec("COMMIT");
    } catch (error) {
      db.exec("ROLLBACK");
      throw error;
    }
  });

  // 3. A row with its own fence columns: the first UPDATE claims it, later ones need the pair to stand.
  await locks.request("report/march", async (lease) => {
    const rises = guard.claimPredicate(lease);
    const claimed = db
      .prepare(`UPDATE report SET status = ?, ${rises.set.text} WHERE id = ? AND ${rises.text}`)
      .run("running", ...rises.set.params, "march", ...rises.params);
    if (claimed.changes !== 1) throw new Error("somebody newer has this report");
    const mine = guard.predicate(lease);
    const done = db
      .prepare(`UPDATE report SET status = ? WHERE id = ? AND ${mine.text}`)
      .run("done", "march", ...mine.params);
    if (done.changes !== 1) throw new Error("somebody newer has this report");
  });

  const { status } = db.prepare("SELECT status FROM report").all()[0] as { status: string };
  const balance = balanceOf();
  await locks.close();
  db.close();
  return { balance, status };
}

async function computeInterest(balance: number): Promise<number> {
  return Math.round(balance * 0.1);
}
