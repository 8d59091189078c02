import { AsyncLocalStorage } from "node:async_hooks";
import type { AsyncContext } from "../core/async-context.ts";

/** Node's way to follow a chain of asynchronous calls. */
export function asyncContext<T>(): AsyncContext<T> {
  const storage = new AsyncLocalStorage<T>();
  return {
    run: (value, fn) => storage.run(value, fn),
    get: () => storage.getStore(),
  };
}
