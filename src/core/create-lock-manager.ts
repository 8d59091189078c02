import type { Capabilities, Narrowed, Requirements, Satisfiable } from "./capabilities.ts";
import type { Driver } from "./driver.ts";
import { show } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import { inspect, query, revoke } from "./introspection.ts";
import { acquireAll } from "./lease-set.ts";
import { LiveLease } from "./live-lease.ts";
import type {
  AcquireOptions,
  LockManager,
  ManagerOptions,
  OnceOptions,
  Platform,
} from "./lock-manager.ts";
import { checkName } from "./lock-name.ts";
import { type AnyManagerOptions, ManagerEngine } from "./manager.ts";
import { once } from "./once.ts";
import { CALL_OPTIONS, checkOptions } from "./option-names.ts";
import { parsePermits } from "./option-values.ts";
import { type Body, request } from "./requests.ts";
import { check, resume } from "./transfer.ts";

type Options = AcquireOptions<never>;

/** Makes a manager from a driver; the overloads say what `require` does to its type. */
export interface CreateLockManager {
  <C extends Capabilities>(driver: Driver<C>, options?: ManagerOptions<never>): LockManager<C>;
  <C extends Capabilities, const R extends Requirements>(
    driver: Driver<C>,
    options: ManagerOptions<R> & { readonly require: Satisfiable<C, R> },
  ): LockManager<Narrowed<C, R>>;
}

/** `createLockManager` for one kind of host. The port's types are erased here, and only here. */
export function lockManagerFactory(platform: () => Platform): CreateLockManager {
  return ((driver: Driver, options: AnyManagerOptions = {}): unknown => {
    if (typeof (driver as Partial<Driver> | null | undefined)?.open !== "function")
      throw new InvalidArgumentError(
        `Expected a driver such as memoryDriver(), got ${show(driver)}.`,
      );
    return new Manager(new ManagerEngine(driver, options, platform()));
  }) as CreateLockManager;
}

/** A lock manager: every call is a function over the engine. */
class Manager {
  readonly #engine: ManagerEngine;
  readonly on: ManagerEngine["on"];

  constructor(engine: ManagerEngine) {
    this.#engine = engine;
    this.on = engine.on.bind(engine);
  }

  async request(name: string, ...args: unknown[]): Promise<unknown> {
    return await request(this.#engine, name, args);
  }

  /** Not async, which would make a second promise for every lease: this is the way that everybody takes. */
  acquire(name: string, options?: Options): PromiseLike<LiveLease> {
    return new Promise((resolve, reject) => {
      const terms = this.#engine.termsFor(name, options, CALL_OPTIONS.acquire);
      this.#engine.enter(name, terms, options?.signal, resolve, reject);
    });
  }

  async tryAcquire(name: string, options?: Options): Promise<LiveLease | null> {
    const terms = this.#engine.termsFor(name, options, CALL_OPTIONS.tryAcquire);
    const lease = await this.#engine.tryAcquire(name, terms, options?.signal);
    return lease instanceof LiveLease ? lease : null;
  }

  async acquireAll(names: readonly string[], options?: Options): Promise<unknown> {
    return await acquireAll(this.#engine, names, options);
  }

  semaphore(name: string, options: { readonly permits: number }): Semaphore {
    checkName(name);
    checkOptions(options, CALL_OPTIONS.semaphore);
    return new Semaphore(this.#engine, name, parsePermits(options.permits));
  }

  async once(name: string, options: OnceOptions, body: Body): Promise<unknown> {
    return await once(this.#engine, name, options, body);
  }

  async query(options?: { readonly prefix?: string; readonly limit?: number }): Promise<unknown> {
    return await query(this.#engine, options);
  }

  async inspect(name: string): Promise<unknown> {
    return await inspect(this.#engine, name);
  }

  async revoke(name: string, options: Parameters<typeof revoke>[2]): Promise<unknown> {
    return await revoke(this.#engine, name, options);
  }

  async check(sequencer: string): Promise<unknown> {
    return await check(this.#engine, sequencer);
  }

  async resume(exported: string): Promise<LiveLease> {
    return await resume(this.#engine, exported);
  }

  async close(): Promise<void> {
    await this.#engine.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine.close();
  }
}

/** A name with a number of permits. */
class Semaphore {
  readonly #engine: ManagerEngine;
  readonly #name: string;
  readonly #permits: number;

  constructor(engine: ManagerEngine, name: string, permits: number) {
    this.#engine = engine;
    this.#name = name;
    this.#permits = permits;
  }

  async request(...args: unknown[]): Promise<unknown> {
    return await request(this.#engine, this.#name, args, this.#permits);
  }

  async acquire(options?: Options): Promise<LiveLease> {
    const terms = this.#engine.termsFor(this.#name, options, CALL_OPTIONS.permits, this.#permits);
    return await this.#engine.acquire(this.#name, terms, options?.signal);
  }

  async tryAcquire(options?: Options): Promise<LiveLease | null> {
    const terms = this.#engine.termsFor(
      this.#name,
      options,
      CALL_OPTIONS.tryPermits,
      this.#permits,
    );
    const lease = await this.#engine.tryAcquire(this.#name, terms, options?.signal);
    return lease instanceof LiveLease ? lease : null;
  }
}
