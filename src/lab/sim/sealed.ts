import { drainMicrotasks, inEventLoop } from "../../runtime/microtasks.ts";
import { jobs } from "./pump.ts";

const NAMES = ["setTimeout", "setInterval", "setImmediate"] as const;

/**
 * Runs a world with real timers out of reach: whoever starts one inside a run throws. A run is one callback of the event
 * loop, or one chain of promises, so nothing else of the process runs meanwhile that could need them.
 */
export async function sealed<T>(run: () => Promise<T>): Promise<T> {
  if (drainMicrotasks === null) return await withoutTimers(run);
  const drain = drainMicrotasks;
  return await inEventLoop(() => pump(run, drain)).then((settle) => settle());
}

/** Runs to the end, here and now: the promises and the worlds of `run` in turn. */
function pump<T>(run: () => Promise<T>, drain: () => void): () => T {
  const restore = seal();
  try {
    let settle: (() => T) | undefined;
    jobs.begin(drain);
    run().then(
      (value) => {
        settle = () => value;
      },
      (error: unknown) => {
        settle = () => {
          throw error;
        };
      },
    );
    do drain();
    while (settle === undefined && jobs.next());
    if (settle === undefined)
      throw new Error("A sealed run waited for something outside its world.");
    return settle;
  } finally {
    jobs.end();
    restore();
  }
}

async function withoutTimers<T>(run: () => Promise<T>): Promise<T> {
  const restore = seal();
  try {
    return await run();
  } finally {
    restore();
  }
}

/** Where an error was made is looked up for every one, and most are answers that a run expects: one line is enough. */
const STACK_LINES = 1;

function seal(): () => void {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = STACK_LINES;
  const saved = NAMES.map((name) => Reflect.get(globalThis, name) as unknown);
  for (const name of NAMES)
    Reflect.set(globalThis, name, () => {
      throw new Error(`${name} inside a simulated world: use the injected clock`);
    });
  return () => {
    Error.stackTraceLimit = stackTraceLimit;
    NAMES.forEach((name, i) => Reflect.set(globalThis, name, saved[i]));
  };
}
