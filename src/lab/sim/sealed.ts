const NAMES = ["setTimeout", "setInterval", "setImmediate"] as const;

/**
 * Runs a world with real timers out of reach: whoever starts one inside a run throws. A run is one chain of microtasks,
 * so nothing else of the process runs meanwhile that could need them.
 */
export async function sealed<T>(run: () => Promise<T>): Promise<T> {
  const saved = NAMES.map((name) => Reflect.get(globalThis, name) as unknown);
  for (const name of NAMES)
    Reflect.set(globalThis, name, () => {
      throw new Error(`${name} inside a simulated world: use the injected clock`);
    });
  try {
    return await run();
  } finally {
    NAMES.forEach((name, i) => Reflect.set(globalThis, name, saved[i]));
  }
}
