import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { nightlyReport } from "../../examples/nightly-report.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";

/** One replica: asks again every 200 ms, as a cron job every minute, until the day's report is there or it is told to end. */
const [store = "", day = "", file = ""] = process.argv.slice(2);
for (;;) {
  const outcome = await nightlyReport(sqliteDriver(store), day, async () => {
    process.send?.("began");
    await sleep(300);
    writeFileSync(file, `report of ${day}\n`);
  });
  process.send?.(outcome);
  await sleep(200);
}
