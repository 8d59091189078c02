import type { ClientProcess } from "./client.ts";

/** No answer came in time. */
export const LATE: unique symbol = Symbol("late");

/** The work's result, or `LATE` when it takes longer than `ms` of the process's clock; the work goes on. */
export async function within<T>(
  process: Pick<ClientProcess, "clock">,
  ms: number,
  work: PromiseLike<T>,
): Promise<T | typeof LATE> {
  return await new Promise((resolve) => {
    const timer = process.clock.timer(ms, () => {
      resolve(LATE);
    });
    void work.then((value) => {
      timer.cancel();
      resolve(value);
    });
  });
}
