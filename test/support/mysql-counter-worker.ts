import { createPool, type ResultSetHeader, type RowDataPacket } from "mysql2/promise";
import { mysqlDriver } from "../../src/drivers/mysql/index.ts";
import { mysqlGuard } from "../../src/guards/mysql/index.ts";
import { createLockManager, RingfenceError } from "../../src/index.ts";

/** What a worker is told to do. */
export interface MysqlCounterOrder {
  readonly url: string;
  readonly times: number;
  /** Tells the steps of this worker apart from those of the others. */
  readonly worker: string;
}

const order = JSON.parse(process.argv[2] ?? "{}") as MysqlCounterOrder;
const pool = createPool({ uri: order.url, connectionLimit: 2 });
// Anything that the driver left unheard would end this process with another code than 0.
const locks = createLockManager(mysqlDriver(pool), { ttl: 2000, trustSettings: true });
const guard = mysqlGuard();

/** What the user's own client says of its session. */
function isNative(error: unknown): boolean {
  return error instanceof Error && ("errno" in error || "fatal" in error);
}

for (let i = 0; i < order.times; i += 1) {
  const step = `${order.worker}/${i}`;
  for (;;) {
    try {
      await locks.request("counter", async (lease) => {
        await guard.run(pool, "counter", lease, async (tx) => {
          // A commit whose answer was lost stands: the step is asked for again, and found.
          const [done] = await tx.query<RowDataPacket[]>("SELECT 1 FROM steps WHERE id = ?", [
            step,
          ]);
          if (done.length > 0) return;
          const [rows] = await tx.query<RowDataPacket[]>("SELECT value FROM counter");
          await tx.query<ResultSetHeader>("INSERT INTO steps VALUES (?)", [step]);
          await tx.query("UPDATE counter SET value = ?", [Number(rows[0]?.["value"]) + 1]);
        });
      });
      break;
    } catch (error) {
      // A session was ended under us, or the lease was lost: ask again. A defect has another class.
      if (!(error instanceof RingfenceError) && !isNative(error)) throw error;
    }
  }
}
await locks.close();
await pool.end();
