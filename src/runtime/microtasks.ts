/**
 * Runs every promise callback that is due, until none is left; `null` where this Node cannot. Only from a callback of the
 * event loop: within a promise callback it does nothing.
 */
export const drainMicrotasks: (() => void) | null = find();

function find(): (() => void) | null {
  // What Node itself calls after each callback. It has no public name.
  const tick: unknown = Reflect.get(process, "_tickCallback");
  return typeof tick === "function" ? (tick as () => void).bind(process) : null;
}

const later = setImmediate;

/** Runs `work` in a callback of the event loop of its own. */
export async function inEventLoop<T>(work: () => T): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    later(() => {
      try {
        resolve(work());
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  });
}
