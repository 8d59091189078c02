import { Pool } from "pg";
import postgres from "postgres";
import { postgresDriver } from "../../src/drivers/postgres/index.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { createLockManager, RingfenceError } from "../../src/index.ts";

/** What a worker is told to do. */
export interface PostgresCounterOrder {
  readonly url: string;
  readonly library: "pg" | "postgres.js";
  readonly times: number;
  /** Tells the steps of this worker apart from those of the others. */
  readonly worker: number;
}

const order = JSON.parse(process.argv[2] ?? "{}") as PostgresCounterOrder;
const pool = new Pool({ connectionString: order.url, max: 2 });
// The user's own pool: its idle sessions are ended too, and an error that nobody hears would end the process.
pool.on("error", () => undefined);
const client = order.library === "pg" ? pool : postgres(order.url);
// Anything that the driver left unheard would end this process with another code than 0.
const locks = createLockManager(postgresDriver(client), { ttl: 2000, trustSettings: true });
const guard = postgresGuard();

/** What the user's own client says of its session. */
function isNative(error: unknown): boolean {
  return error instanceof Error && "severity" in error;
}

for (let i = 0; i < order.times; i += 1) {
  const step = `${order.worker}/${i}`;
  for (;;) {
    try {
      await locks.request("counter", async (lease) => {
        await guard.run(pool, "counter", lease, async (tx) => {
          // A commit whose answer was lost stands: the step is asked for again, and found.
          const { rowCount } = await tx.query("SELECT 1 FROM steps WHERE id = $1", [step]);
          if (rowCount !== 0) return;
          const { rows } = await tx.query<{ value: number }>("SELECT value FROM counter");
          await tx.query("INSERT INTO steps VALUES ($1)", [step]);
          await tx.query("UPDATE counter SET value = $1", [Number(rows[0]?.value) + 1]);
        });
      });
      break;
    } catch (error) {
      // A session was ended under us, or the lease was lost: ask again. A defect has another class.
      if (
        !(error instanceof RingfenceError) &&
        (error as Error).constructor !== Error &&
        !isNative(error)
      )
        throw error;
    }
  }
}
await locks.close();
await pool.end();
