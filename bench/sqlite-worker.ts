// One of several processes on one SQLite file, driven by messages. Times are of CLOCK_MONOTONIC, which they share.
import { createLockManager, type Lease } from "ringfence";
import { sqliteDriver } from "ringfence/sqlite";

/** What the benchmark asks of a process. */
export type Order =
  | { readonly call: "open" | "acquire" | "release" | "wait" }
  | { readonly call: "cycle"; readonly forMs: number };

/** What came of it. `at`: when it was acquired, or when its release was called. */
export interface Report {
  readonly cycles: number;
  readonly at: number;
}

const locks = createLockManager(sqliteDriver(process.argv[2] ?? ""));
let held: Lease | undefined;

function clock(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

async function run(order: Order): Promise<Report> {
  let cycles = 0;
  let at = clock();
  switch (order.call) {
    case "open":
      await locks.inspect("shared");
      break;
    case "acquire":
      held = await locks.acquire("wake");
      break;
    case "release":
      await held?.release();
      break;
    case "wait": {
      const lease = await locks.acquire("wake");
      at = clock();
      await lease.release();
      break;
    }
    case "cycle":
      for (const end = clock() + order.forMs; clock() < end; cycles += 1) {
        const lease = await locks.acquire("shared");
        await lease.release();
      }
  }
  return { cycles, at };
}

process.on("message", (order: Order) => {
  void run(order).then((report) => process.send?.(report));
});
process.on("disconnect", () => void locks.close());
