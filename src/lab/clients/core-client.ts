import { lockManagerFactory } from "../../core/create-lock-manager.ts";
import type { Driver } from "../../core/driver.ts";
import { AcquireTimeoutError, BackendError, RingfenceError } from "../../core/errors.ts";
import type { FencedLease } from "../../core/lease.ts";
import type { LockManager, ManagerOptions, Platform } from "../../core/lock-manager.ts";
import type { MemoryCapabilities } from "../../drivers/memory/index.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { Held, LockClient, LockTerms } from "./client.ts";

/** What a simulated process lends to a manager. */
function platformOf(process: SimProcess): Platform {
  const { clock, random, host } = process;
  return {
    clock,
    random,
    mac: systemMac,
    host,
    sinks: [],
    context: () => ({ run: (_value, fn) => fn(), get: () => undefined }),
    historySink: () => ({
      wants: () => false,
      emit: () => undefined,
      listenerFailed: () => undefined,
    }),
  };
}

/** The production lock manager in a simulated process, with everything it tells its user written into the history. */
export class CoreClient implements LockClient {
  readonly process: SimProcess;
  readonly manager: LockManager<MemoryCapabilities>;
  readonly #world: World;
  readonly #leases = new Map<string, FencedLease>();

  constructor(
    world: World,
    process: SimProcess,
    driver: Driver<MemoryCapabilities>,
    options: ManagerOptions<never> = {},
    create: ReturnType<typeof lockManagerFactory> = lockManagerFactory(() => platformOf(process)),
  ) {
    this.#world = world;
    this.process = process;
    this.manager = create(driver, { detectReentry: false, trustSettings: true, ...options });
    const { probe } = world;
    this.manager.on("renewed", ({ name: lock, grantId: grant, token }) => {
      const lease = this.#leases.get(grant);
      if (lease === undefined) return;
      const facts = { lock, grant, ...(token === null ? {} : { token }) };
      probe.ev(process, "ok", "renew", { ...facts, remainingMs: lease.remainingMs() });
    });
    this.manager.on("lost", ({ name: lock, grantId: grant, token, reason }) => {
      if (!this.#leases.delete(grant)) return;
      probe.ev(process, "event", "lost", {
        lock,
        grant,
        ...(token === null ? {} : { token }),
        err: reason,
      });
    });
  }

  async acquire(lock: string, terms: LockTerms): Promise<CoreHeld | null> {
    const { probe } = this.#world;
    const op = probe.op();
    const { ttlMs } = terms;
    probe.ev(this.process, "invoke", "acquire", { op, lock, ttlMs });
    try {
      const lease = await this.manager.acquire(lock, {
        ttl: ttlMs,
        wait: terms.waitMs ?? "forever",
        lockDelay: terms.lockDelayMs ?? 0,
        ...(terms.maxHoldMs === undefined ? {} : { maxHold: terms.maxHoldMs }),
        keepalive: terms.renews === true ? "auto" : "off",
      });
      const { grantId: grant, token } = lease;
      this.#leases.set(grant, lease);
      probe.ev(this.process, "ok", "acquire", {
        op,
        lock,
        grant,
        token,
        ttlMs,
        remainingMs: lease.remainingMs(),
      });
      return new CoreHeld(this.#world, this, lease);
    } catch (error) {
      const surely =
        error instanceof AcquireTimeoutError ||
        (error instanceof BackendError && error.outcome === "not-applied");
      const err = error instanceof Error ? error.message : String(error);
      probe.ev(this.process, surely ? "fail" : "info", "acquire", { op, lock, err });
      return null;
    }
  }

  forget(lease: FencedLease): void {
    this.#leases.delete(lease.grantId);
  }
}

/** A production lease in a scenario. */
export class CoreHeld implements Held {
  readonly lease: FencedLease;
  readonly #world: World;
  readonly #client: CoreClient;

  constructor(world: World, client: CoreClient, lease: FencedLease) {
    this.#world = world;
    this.#client = client;
    this.lease = lease;
  }

  get lock(): string {
    return this.lease.name;
  }
  get grant(): string {
    return this.lease.grantId;
  }
  get token(): bigint {
    return this.lease.token;
  }
  get scope(): string {
    return this.lease.scope;
  }

  believes(): boolean {
    const { state } = this.lease;
    const accepted = state === "held" || state === "jeopardy";
    this.#world.probe.ev(this.#client.process, "event", "held?", { ...this.#facts(), accepted });
    return accepted;
  }

  async renew(ttlMs: number): Promise<void> {
    try {
      await this.lease.renew(ttlMs);
    } catch (error) {
      // Lost, or not answered: `believes` says which.
      if (!(error instanceof RingfenceError)) throw error;
    }
  }

  async release(): Promise<void> {
    const { probe } = this.#world;
    const op = probe.op();
    const { process } = this.#client;
    const facts = { op, ...this.#facts() };
    probe.ev(process, "invoke", "release", facts);
    this.#client.forget(this.lease);
    const outcome = await this.lease.release();
    const k = outcome === "released" ? "ok" : outcome === "already-lost" ? "fail" : "info";
    probe.ev(process, k, "release", { ...facts, err: outcome });
  }

  #facts(): { lock: string; grant: string; token: bigint } {
    return { lock: this.lock, grant: this.grant, token: this.token };
  }
}
