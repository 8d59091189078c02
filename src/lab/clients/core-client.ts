import type { Capabilities, Mode } from "../../core/capabilities.ts";
import { lockManagerFactory } from "../../core/create-lock-manager.ts";
import type { Driver, Host } from "../../core/driver.ts";
import {
  AcquireTimeoutError,
  BackendError,
  LeaseLostError,
  RingfenceError,
} from "../../core/errors.ts";
import type { LeaseBase } from "../../core/lease.ts";
import type { LockManager, ManagerOptions, Platform } from "../../core/lock-manager.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import type { ClientProcess, ClientWorld, Held, LockClient, LockTerms } from "./client.ts";

/** What the lab needs of a driver: tokens that rise, and every mode. */
export interface LabCapabilities extends Capabilities {
  readonly fencing: "volatile" | "durable";
  readonly modes: Mode;
}

/** A process that a manager can run in. */
export interface HostProcess extends ClientProcess {
  readonly host: Host;
}

/** A lease of any mode; a token is there where it is exclusive. */
type AnyLease = LeaseBase & { readonly token?: bigint };

/** What a process of a scenario lends to a manager. */
function platformOf(process: HostProcess): Platform {
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

/** The production lock manager in a process of a scenario, with everything it tells its user written into the history. */
export class CoreClient implements LockClient {
  readonly process: HostProcess;
  readonly manager: LockManager<LabCapabilities>;
  readonly #world: ClientWorld;
  readonly #leases = new Map<string, AnyLease>();

  constructor(
    world: ClientWorld,
    process: HostProcess,
    driver: Driver<LabCapabilities>,
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
    return await this.#take(lock, terms, async () =>
      this.manager.acquire(lock, {
        mode: terms.shared === true ? "shared" : "exclusive",
        ttl: terms.ttlMs,
        wait: terms.waitMs ?? "forever",
        lockDelay: terms.lockDelayMs ?? 0,
        ...(terms.maxHoldMs === undefined ? {} : { maxHold: terms.maxHoldMs }),
        keepalive: terms.renews === true ? "auto" : "off",
      }),
    );
  }

  async resume(exported: string, lock: string, terms: LockTerms): Promise<CoreHeld | null> {
    return await this.#take(lock, terms, async () => this.manager.resume(exported));
  }

  async #take(
    lock: string,
    { ttlMs, shared }: LockTerms,
    take: () => Promise<AnyLease>,
  ): Promise<CoreHeld | null> {
    const { probe } = this.#world;
    const op = probe.op();
    const mode = shared === true ? ({ mode: "shared" } as const) : {};
    probe.ev(this.process, "invoke", "acquire", { op, lock, ttlMs, ...mode });
    try {
      const lease = await take();
      const { grantId: grant, token } = lease;
      this.#leases.set(grant, lease);
      const remainingMs = lease.remainingMs();
      const facts = { op, lock, grant, token, ttlMs, remainingMs, ...mode };
      probe.ev(this.process, "ok", "acquire", facts);
      return new CoreHeld(this.#world, this, lease);
    } catch (error) {
      const surely =
        error instanceof AcquireTimeoutError ||
        error instanceof LeaseLostError ||
        (error instanceof BackendError && error.outcome === "not-applied");
      const err = error instanceof Error ? error.message : String(error);
      probe.ev(this.process, surely ? "fail" : "info", "acquire", { op, lock, err });
      return null;
    }
  }

  forget(lease: AnyLease): void {
    this.#leases.delete(lease.grantId);
  }
}

/** A production lease in a scenario. */
export class CoreHeld implements Held {
  readonly lease: AnyLease;
  readonly #world: ClientWorld;
  readonly #client: CoreClient;

  constructor(world: ClientWorld, client: CoreClient, lease: AnyLease) {
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
  get token(): bigint | undefined {
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

  async handOver(): Promise<string> {
    this.#client.forget(this.lease);
    return await this.lease.export();
  }

  #facts(): { lock: string; grant: string; token: bigint | undefined } {
    return { lock: this.lock, grant: this.grant, token: this.token };
  }
}
