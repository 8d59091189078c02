import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import { createLockManager } from "../../src/index.ts";

/** What a worker is told to do. */
export interface CounterOrder {
  readonly store: string;
  readonly counter: string;
  readonly log: string;
  readonly times: number;
  readonly handOff: "local" | "off";
  /** Callers of this process at the same time. */
  readonly callers: number;
}

/** One line of the log: a section began or ended, by whom, and who waited while it lasted. */
export interface CounterLine {
  readonly what: "in" | "out";
  readonly pid: number;
  readonly token: string;
  readonly grantId: string;
  readonly pending?: readonly string[];
}

const order = JSON.parse(process.argv[2] ?? "{}") as CounterOrder;
const locks = createLockManager(sqliteDriver(order.store), { handOff: order.handOff });
const note = (line: CounterLine): void => {
  appendFileSync(order.log, `${JSON.stringify(line)}\n`);
};

let left = order.times;
await Promise.all(
  Array.from({ length: order.callers }, async () => {
    while (left > 0) {
      left -= 1;
      await locks.request("counter", async ({ token, grantId }) => {
        const own = { pid: process.pid, token: token.toString(), grantId };
        note({ what: "in", ...own });
        const value = Number(readFileSync(order.counter, "utf8"));
        await sleep(1);
        const { pending } =
          order.handOff === "off" ? await locks.inspect("counter") : { pending: [] };
        writeFileSync(order.counter, String(value + 1));
        note({ what: "out", ...own, pending: pending.map((waiter) => waiter.grantId) });
      });
    }
  }),
);
await locks.close();
