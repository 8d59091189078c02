import type { MemoryCapabilities } from "../../src/drivers/memory/index.ts";
import {
  type Capabilities,
  createLockManager,
  type Driver,
  type Fencing,
  type Guard,
  type LockManager,
} from "../../src/index.ts";

declare const memory: Driver<MemoryCapabilities>;
declare const guard: Guard<object, object>;
const m = createLockManager(memory);

// A service takes any manager: `LockManager<C>` must stay covariant in C.
export class Orders {
  readonly locks: LockManager;
  constructor(locks: LockManager) {
    this.locks = locks;
  }
}
new Orders(m);

// A service that writes through a guard says so, and any fencing driver fits.
export type Fenced = Capabilities & { readonly fencing: Exclude<Fencing, "none"> };
export async function debit(locks: LockManager<Fenced>): Promise<bigint> {
  const lease = await locks.acquire("wallet");
  await guard.claim({}, "wallet", lease);
  return lease.token;
}
await debit(m);
// @ts-expect-error nobody knows whether this one can fence
await debit(new Orders(m).locks);

// Generic code reads what every lease has.
export async function generic<C extends Capabilities>(locks: LockManager<C>): Promise<AbortSignal> {
  return (await locks.acquire("a")).signal;
}

// A mode or a flag known only at run time.
declare const mode: "exclusive" | "shared";
declare const ifAvailable: boolean;
const either = await m.acquire("a", { mode });
// @ts-expect-error a lease that may be shared never claims
await guard.claim({}, "x", either);
if (either.mode === "exclusive") await guard.claim({}, "x", either);
export const maybe: string | null = await m.request("a", { ifAvailable }, (l) => l?.name ?? null);
