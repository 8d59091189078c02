import Database from "libsql";
import { createLockManager } from "ringfence";
import { sqliteGuard } from "ringfence/guards/sqlite";
import { sqliteDriver } from "ringfence/sqlite";

const db = new Database("shop.db");
db.exec("CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, left INTEGER NOT NULL)");
db.exec("INSERT INTO stock VALUES ('apple', 3) ON CONFLICT DO UPDATE SET left = 3");

const locks = createLockManager(sqliteDriver("locks.db"), { ttl: "10s" });
const guard = sqliteGuard();

const left = await locks.request("stock/apple", { guard: { guard, db } }, () => {
  const row = db.prepare("SELECT left FROM stock WHERE item = 'apple'").get() as { left: number };
  db.prepare("UPDATE stock SET left = ? WHERE item = 'apple'").run(row.left - 1);
  return row.left - 1;
});
console.log(`${left} left`);

await locks.close();
db.close();
