import type { LockManager } from "../core/lock-manager.ts";
import { createLockManager } from "../index.ts";
import type { Invocation } from "./command-module.ts";
import { chooseNamespace, chooseStore, connectStore, type StoreOptions } from "./store.ts";

/** Lends a manager on the chosen store to `work`, and closes it. */
export async function withManager<T>(
  options: StoreOptions,
  { env, messages }: Invocation,
  work: (manager: LockManager) => Promise<T>,
): Promise<T> {
  const driver = await connectStore(chooseStore(options, env), messages);
  const manager = createLockManager(driver, { namespace: chooseNamespace(options, env) });
  try {
    return await work(manager);
  } finally {
    await manager.close();
  }
}
