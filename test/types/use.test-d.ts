import type { MemoryCapabilities } from "../../src/drivers/memory/index.ts";
import { fileGuard, fileStore } from "../../src/guards/file/index.ts";
import { memoryGuard, memoryStore } from "../../src/guards/memory/index.ts";
import {
  type Capabilities,
  createLockManager,
  type Driver,
  type FencingToken,
  type Guard,
  type Holder,
  type OnceResult,
} from "../../src/index.ts";

// Drivers of every kind, also of kinds that this release does not have: the types must hold for all.
interface WallClockCapabilities extends Capabilities {
  readonly fencing: "volatile";
  readonly waiting: "queue";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: "exclusive" | "shared" | "permits";
}
interface ExclusiveCapabilities extends Capabilities {
  readonly fencing: "volatile";
  readonly waiting: "poll";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: "exclusive";
}
interface EfficiencyCapabilities extends Capabilities {
  readonly fencing: "none";
  readonly waiting: "poll";
  readonly liveness: "ttl";
  readonly clock: "server-wall";
  readonly modes: "exclusive";
}
declare const memory: Driver<MemoryCapabilities>;
declare const wallClock: Driver<WallClockCapabilities>;
declare const exclusiveOnly: Driver<ExclusiveCapabilities>;
declare const cheap: Driver<EfficiencyCapabilities>;
declare const unknown: Driver; // connect(url)
declare const guard: Guard<object, object>;

const m = createLockManager(memory);
const r = createLockManager(wallClock);
const q = createLockManager(exclusiveOnly);
const n = createLockManager(cheap);
const u = createLockManager(unknown);

// A token only where the driver can fence.
const lease = await m.acquire("a");
const ofMemory: FencingToken<"volatile"> = lease.token;
const volatile = (await r.acquire("a")).token;
// @ts-expect-error volatile is not durable
const wrong: FencingToken<"durable"> = volatile;
const none = await n.acquire("a");
// @ts-expect-error no token without fencing
export const noToken: unknown = none.token;
const maybe = await u.acquire("a");
// @ts-expect-error nobody knows yet
export const noTokenYet: unknown = maybe.token;

// require: narrows the unknown driver, refuses the impossible one.
const ok = createLockManager(unknown, { require: { fencing: "durable" } });
const known: FencingToken<"durable"> = (await ok.acquire("a")).token;
createLockManager(wallClock, { require: { fencing: "volatile" } });
createLockManager(wallClock, { ttl: "10s", namespace: "billing" });
// @ts-expect-error volatile never becomes durable
createLockManager(wallClock, { require: { fencing: "durable" } });
// @ts-expect-error no fencing at all
createLockManager(cheap, { require: { fencing: "volatile" } });
// @ts-expect-error a typo is seen
createLockManager(memory, { namespase: "billing" });

// request overloads
const a: number = await m.request("a", (l) => Number(l.token));
const b: string = await m.request("a", { ttl: "5s" }, async (l) => l.sequencer);
const c: bigint | null = await m.request("a", { ifAvailable: true }, (l) =>
  l === null ? null : l.token,
);
// @ts-expect-error null when busy
await m.request("a", { ifAvailable: true }, (l) => l.token);
// @ts-expect-error nothing to wait for
await m.request("a", { ifAvailable: true, wait: "5s" }, () => 1);
// @ts-expect-error a typo is seen
await m.request("a", { waitt: "5s" }, () => 1);
// @ts-expect-error a typo is seen
await m.acquire("a", { tll: "5s" });
// @ts-expect-error one attempt never waits
await m.tryAcquire("a", { wait: "5s" });

// request with a guard: the body also gets the transaction.
const db = memoryStore<number>();
const guarded: bigint = await m.request(
  "a",
  { guard: { guard: memoryGuard(), db, resource: "x" } },
  (l, tx) => {
    tx.set("x", 5);
    return l.token;
  },
);

const written: string = await m.request(
  "a",
  { guard: { guard: fileGuard(), db: fileStore("folder"), resource: "x" } },
  async (l, tx) => {
    tx.write("x", l.token.toString());
    return l.name;
  },
);

// modes
const shared = await m.acquire("a", { mode: "shared" });
const s: "shared" = shared.mode;
// @ts-expect-error this driver has no shared mode
await q.acquire("a", { mode: "shared" });
// @ts-expect-error this driver has no permits
q.semaphore("a", { permits: 2 });
// @ts-expect-error permits are asked for through semaphore
await m.acquire("a", { mode: "permits" });
const permit = await m.semaphore("a", { permits: 2 }).acquire();
// @ts-expect-error a permit has no token
export const noPermitToken: unknown = permit.token;

// guards
await guard.claim({}, "x", lease);
await guard.claim({}, ["x", "y"], lease);
await guard.claim({}, "x", lease.sequencer);
await guard.claim({}, "x", { token: 5n, grantId: "g", scope: "s", trust: true });
// @ts-expect-error nobody vouches for this pair
await guard.claim({}, "x", { token: 5n, grantId: "g", scope: "s" });
// @ts-expect-error there is no token to claim with
await guard.claim({}, "x", none);
// @ts-expect-error a shared lease never claims
await guard.claim({}, "x", shared);
// @ts-expect-error a permit never claims
await guard.claim({}, "x", permit);
// @ts-expect-error nobody knows whether it has a token
await guard.claim({}, "x", maybe);

// once: the two outcomes are told apart by `ran`.
const once: OnceResult<number> = await m.once("nightly", { keep: "20h" }, () => 5);
export const told: number | Holder = once.ran ? once.value : once.holder;
// @ts-expect-error how long the record stays must be said
await m.once("nightly", {}, () => 5);

// what other people show us
const { revoked } = await m.revoke("a", { reason: "stuck since 09:00" });
export const who: string | undefined = revoked?.label;
// @ts-expect-error a revoke says why
await m.revoke("a", {});
export const verdict: "current" | "superseded" | "same-tenure" = await m.check(lease.sequencer);

await using held = await m.acquire("z");
export const all = [ofMemory, wrong, known, a, b, c, s, guarded, written, held];
