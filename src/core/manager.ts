import type { AsyncContext } from "./async-context.ts";
import type { Declaration, Mode } from "./capabilities.ts";
import type { Clock } from "./clock.ts";
import type { Driver, DriverContext, Notice } from "./driver.ts";
import { DueQueue } from "./due-queue.ts";
import type { Engine, WaitingPlace } from "./engine.ts";
import { AcquireTimeoutError, ManagerClosedError } from "./errors.ts";
import { Events, type LockEventName, type LockEvents } from "./events.ts";
import { Keepalive } from "./keepalive.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { asBackendError, Link } from "./link.ts";
import { FencedLiveLease, LiveLease } from "./live-lease.ts";
import { NameQueue } from "./local-queue.ts";
import type { AcquireOptions, ManagerOptions, Platform } from "./lock-manager.ts";
import { checkName } from "./lock-name.ts";
import type { Mac } from "./mac.ts";
import { checkOptions } from "./option-names.ts";
import { type Settings, settingsOf } from "./options.ts";
import { ProcessHold } from "./process-hold.ts";
import type { Random } from "./random.ts";
import { Returns } from "./returns.ts";
import { Secrets } from "./secrets.ts";
import type { GrantIds, Tenure } from "./tenure.ts";
import { type Terms, termsOf } from "./terms.ts";
import { HolderClock } from "./validity.ts";
import { abortable, tryOnce } from "./waiting.ts";
import { Wakes } from "./wakes.ts";

/** How many names without a lease or a waiter keep their queue. */
const IDLE_KEPT = 64;

/** A name that is being held by a `request` further up the same chain of calls. */
export interface Nest {
  readonly name: string;
  readonly lease: LiveLease;
  readonly outer: Nest | undefined;
}

/** Any manager's options, whatever they require. */
export type AnyManagerOptions = ManagerOptions;

/**
 * The engine of one lock manager: it owns the parts and gives leases. `LockManager`'s calls are functions over it, one
 * file each.
 */
export class ManagerEngine implements Engine {
  readonly driver: Driver;
  readonly declared: Declaration;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly mac: Mac;
  readonly holderClock: HolderClock;
  readonly events: Events;
  readonly link: Link;
  readonly returns: Returns;
  readonly keepalive: Keepalive;
  readonly hold: ProcessHold;
  readonly waits: DueQueue<WaitingPlace>;
  readonly wakes: Wakes = new Wakes();
  /** `undefined` where nested requests are not looked for. */
  readonly nest: AsyncContext<Nest> | undefined;
  /** What `close` waits for: bodies that run, and attempts under way. */
  readonly running: Set<Promise<unknown>> = new Set<Promise<unknown>>();
  readonly keeper: LeaseKeeper;
  readonly #secrets: Secrets;
  readonly #queues = new Map<string, NameQueue>();
  /** Names whose queues were empty when last seen, in a ring: the few that are used again and again stay. */
  readonly #idle: string[] = [];
  #idleHand = 0;
  #closing: Promise<void> | undefined;

  constructor(driver: Driver, options: AnyManagerOptions, platform: Platform) {
    this.driver = driver;
    this.declared = driver;
    this.settings = settingsOf(options, driver, platform.host);
    this.clock = options.clock ?? platform.clock;
    this.random = options.random ?? platform.random;
    this.mac = platform.mac;
    this.events = new Events(
      options.history === undefined
        ? platform.sinks
        : [...platform.sinks, platform.historySink(options.history.file)],
    );
    this.nest = this.settings.detectReentry ? platform.context<Nest>() : undefined;
    this.hold = new ProcessHold(this.clock);
    this.#secrets = new Secrets(this.random, (secret) => this.grantIdOf(secret));
    this.holderClock = new HolderClock(this.clock, this.#secrets, (alarm) => {
      // Later, since whoever reads the clock is in the middle of something.
      this.clock.timer(0, () => {
        if (alarm === "slept") this.keepalive.recheck();
        else this.keepalive.doubtAll(new Error("the wall clock jumped"));
      });
    });
    const context: DriverContext = {
      clock: this.clock,
      random: this.random,
      host: platform.host,
      namespace: this.settings.namespace,
      notify: (notice) => {
        this.#onNotice(notice);
      },
    };
    const { trustSettings } = this.settings;
    this.link = new Link(driver, context, { required: options.require ?? {}, trustSettings });
    this.returns = new Returns(this.link, this.clock, this.random);
    this.keeper = new LeaseKeeper(this);
    this.keepalive = new Keepalive(
      this.link,
      { host: this.clock, holder: this.holderClock, random: this.random },
      this.keeper,
    );
    this.waits = new DueQueue<WaitingPlace>(
      this.clock,
      () => this.clock.mono(),
      (due) => {
        for (const place of due) place.onDue(this.clock.mono());
      },
      { ref: true },
    );
  }

  /** @throws ManagerClosedError */
  checkOpen(): void {
    if (this.#closing !== undefined) throw new ManagerClosedError();
  }

  get closing(): boolean {
    return this.#closing !== undefined;
  }

  /** Checks the name and options of an acquisition. */
  termsFor(
    name: string,
    options: AcquireOptions<never> | undefined,
    known: readonly string[],
    permits: number | null = null,
  ): Terms {
    // A name that has a queue was looked at before.
    if (!this.#queues.has(name)) checkName(name);
    if (options === undefined && permits === null) return this.settings.defaults;
    if (options !== undefined) checkOptions(options, known);
    return termsOf(options ?? {}, this.settings, this.declared, permits);
  }

  /** Waits for a lease. Rejects with the signal's reason when it is aborted. */
  async acquire(name: string, terms: Terms, signal?: AbortSignal): Promise<LiveLease> {
    return await new Promise<LiveLease>((resolve, reject) => {
      this.enter(name, terms, signal, resolve, reject);
    });
  }

  /** As `acquire`, for callers that make the promise themselves. @throws ManagerClosedError, or the signal's reason */
  enter(
    name: string,
    terms: Terms,
    signal: AbortSignal | undefined,
    resolve: (lease: LiveLease) => void,
    reject: (error: unknown) => void,
  ): void {
    if (terms.waitMs === 0) {
      this.#acquireAtOnce(name, terms, signal).then(resolve, reject);
      return;
    }
    this.checkOpen();
    signal?.throwIfAborted();
    this.#tellRequested(name, terms.mode);
    this.queueOf(name).enter(terms, signal, resolve, reject);
  }

  async #acquireAtOnce(name: string, terms: Terms, signal?: AbortSignal): Promise<LiveLease> {
    const startedAt = this.clock.mono();
    const lease = await this.tryAcquire(name, terms, signal);
    if (lease instanceof LiveLease) return lease;
    const facts = { waitedMs: this.clock.mono() - startedAt, attempts: 1, holder: lease.holder };
    throw new AcquireTimeoutError(name, facts);
  }

  /** One attempt; who is in the way when it is busy. */
  async tryAcquire(name: string, terms: Terms, signal?: AbortSignal): ReturnType<typeof tryOnce> {
    this.checkOpen();
    signal?.throwIfAborted();
    this.#tellRequested(name, terms.mode);
    return await this.#attemptOnce(name, terms, signal);
  }

  async #attemptOnce(
    name: string,
    terms: Terms,
    signal: AbortSignal | undefined,
  ): ReturnType<typeof tryOnce> {
    const startedAt = this.clock.mono();
    const refused = (cause: unknown): void => {
      if (!this.events.wants("refused")) return;
      const [atMs, monoMs] = [this.clock.wall(), this.clock.mono()];
      this.events.emit("refused", { name, atMs, monoMs, waitedMs: monoMs - startedAt, cause });
    };
    try {
      const work = this.track(tryOnce(this, this.queueOf(name), terms, signal));
      const lease = await abortable(signal, work);
      if (!(lease instanceof LiveLease)) refused(null);
      return lease;
    } catch (error) {
      refused(error);
      throw error;
    }
  }

  /** Lets `close` wait for a piece of work. */
  async track<T>(work: Promise<T>): Promise<T> {
    this.running.add(work);
    try {
      return await work;
    } finally {
      this.running.delete(work);
    }
  }

  queueOf(name: string): NameQueue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      queue = new NameQueue(name, this);
      this.#queues.set(name, queue);
    }
    return queue;
  }

  forget(name: string): void {
    const queue = this.#queues.get(name);
    if (queue?.empty !== true || queue.idling) return;
    queue.idling = true;
    const oldest = this.#idle[this.#idleHand];
    this.#idle[this.#idleHand] = name;
    this.#idleHand = (this.#idleHand + 1) % IDLE_KEPT;
    const old = oldest === undefined ? undefined : this.#queues.get(oldest);
    if (old === undefined || oldest === undefined) return;
    old.idling = false;
    if (old.empty) this.#queues.delete(oldest);
  }

  newIds(): GrantIds {
    if (this.declared.transfer === "no") return { secret: "", grantId: this.#secrets.nextId() };
    return this.#secrets.next();
  }

  /** The public hash of a secret. */
  grantIdOf(secret: string): string {
    return this.mac.sha256(secret).slice(0, 27);
  }

  newLease(tenure: Tenure, previousToken: bigint | null, now: number): LiveLease {
    if (tenure.token === null || tenure.terms.mode === "permits")
      return new LiveLease(tenure, this.keeper, now);
    return new FencedLiveLease(tenure, this.keeper, now, tenure.token, previousToken);
  }

  on<N extends LockEventName>(event: N, listener: (event: LockEvents[N]) => void): () => void {
    return this.events.on(event, listener);
  }

  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  async #close(): Promise<void> {
    this.hold.begin();
    try {
      await Promise.all([...this.#queues.values()].map(async (queue) => queue.close()));
      await this.#drain();
      await Promise.all(this.keepalive.tenures().map(async (tenure) => tenure.lease?.release()));
      await this.returns.settle(this.settings.defaults.requestTimeoutMs);
    } finally {
      await this.#shut();
    }
  }

  /** Whatever the driver says to it, nothing of ours keeps the process alive afterwards. */
  async #shut(): Promise<void> {
    this.keepalive.close();
    this.waits.clear();
    try {
      await this.link.close();
    } catch (error) {
      throw asBackendError(error, "close");
    } finally {
      await this.events.close();
      this.hold.end();
      this.hold.close();
    }
  }

  /** Lets running requests end; whatever runs on after that has lost its lease, which lapses by its ttl. */
  async #drain(): Promise<void> {
    if (this.running.size === 0) return;
    const late = Symbol("late");
    const outcome = await new Promise<unknown>((resolve) => {
      const timer = this.clock.timer(
        this.settings.drainMs,
        () => {
          resolve(late);
        },
        true,
      );
      void this.#allEnded().then(() => {
        timer.cancel();
        resolve(undefined);
      });
    });
    if (outcome !== late) return;
    for (const tenure of this.keepalive.tenures())
      if (tenure.lease?.inRequest === true)
        tenure.lease.apply({ kind: "gone", reason: "expired" }, new ManagerClosedError());
  }

  async #allEnded(): Promise<void> {
    while (this.running.size > 0) await Promise.allSettled(this.running);
  }

  #tellRequested(name: string, mode: Mode): void {
    if (this.events.wants("requested"))
      this.events.emit("requested", {
        name,
        mode,
        atMs: this.clock.wall(),
        monoMs: this.clock.mono(),
      });
  }

  #onNotice(notice: Notice): void {
    if (notice.kind === "wake") {
      this.wakes.get(notice.grantId)?.wake();
      return;
    }
    const { grantIds } = notice;
    const tenures = this.keepalive
      .tenures()
      .filter((tenure) => grantIds === "all" || grantIds.includes(tenure.grantId));
    if (notice.kind === "suspect")
      this.keepalive.doubtAll(new Error("the link to the backend is down"), tenures);
    else
      for (const tenure of tenures) {
        tenure.lease?.checkClock();
        tenure.lease?.apply({ kind: "gone", reason: notice.reason });
      }
  }
}
