import assert from "node:assert/strict";
import type { Capabilities } from "../../core/capabilities.ts";
import type { Clock } from "../../core/clock.ts";
import { type CreateLockManager, lockManagerFactory } from "../../core/create-lock-manager.ts";
import type { Granted, Host } from "../../core/driver.ts";
import type { Lease } from "../../core/lease.ts";
import type { AcquireOptions, LockInfo, ManagerOptions } from "../../core/lock-manager.ts";
import type { Random } from "../../core/random.ts";
import { asyncContext } from "../../runtime/async-context.ts";
import { historyFile } from "../../runtime/history-file.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { DriverFixture, OpenedDriver } from "../driver-contract/fixture.ts";
import { FakeClock } from "../fake-clock.ts";
import { FakeRandom } from "../fake-random.ts";
import { Beliefs } from "./beliefs.ts";
import { Process } from "./process.ts";

/** The longest that a free lock is kept for one waiter. */
const OFFER_MS = 3000;
/** The longest that a backend may take to be opened. */
const OPENING_MS = 10_000;
/** How often a condition is looked at in real time. */
const LOOK_MS = 10;

export type AnyLease = Lease<Capabilities["fencing"], "exclusive">;

/** One test's surroundings: a driver, a clock, and as many processes, with managers of their own, as it wants. */
export class FaultWorld {
  readonly fixture: DriverFixture;
  readonly clock: Clock;
  /** The clock as a fake one, for tests that are excused in real time. */
  readonly fake: FakeClock | null;
  /** The ttl of every lease, unless a test says otherwise. */
  readonly ttlMs: number;
  readonly lagMs: number;
  readonly beliefs: Beliefs = new Beliefs();
  readonly #opened: OpenedDriver;
  readonly #namespace: string;
  readonly #processes: Process[] = [];
  readonly #rejections: unknown[] = [];
  readonly #onRejection = (reason: unknown): void => {
    this.#rejections.push(reason);
  };
  #names = 0;

  private constructor(fixture: DriverFixture, clock: Clock, opened: OpenedDriver) {
    const { minMs, stepMs } = fixture.declares.ttl;
    this.fixture = fixture;
    this.clock = clock;
    this.fake = clock instanceof FakeClock ? clock : null;
    this.#opened = opened;
    // In real time a belief is judged to the millisecond: margins must stand clear of the scheduler's delays.
    const ttl = fixture.lapsingTtlMs ?? Math.max(minMs, this.fake === null ? 2000 : 10_000);
    this.ttlMs = Math.ceil(ttl / stepMs) * stepMs;
    this.lagMs = fixture.lagMs ?? (this.fake === null ? 500 : 0);
    this.#namespace = `faults-${id(systemRandom)}`;
    process.on("unhandledRejection", this.#onRejection);
  }

  static async open(fixture: DriverFixture): Promise<FaultWorld> {
    const clock = fixture.time === "fake" ? new FakeClock() : systemClock;
    return new FaultWorld(fixture, clock, await fixture.open(clock));
  }

  /** The length of an offer on this driver. */
  get offerMs(): number {
    return Math.min(this.ttlMs, OFFER_MS);
  }

  /**
   * The longest that the next one may need to get in after a holder released or vanished, when it hears no wake-up and
   * `dead` others, who never come, stand before it.
   */
  turnMs(dead = 0): number {
    return this.ttlMs + (dead + 1) * this.offerMs + (dead + 2) * this.lagMs;
  }

  /** A lock name that this test has not used yet. */
  name(): string {
    this.#names += 1;
    return `name-${this.#names}`;
  }

  /** One more process. Its backend is open already, unless it is `cold`. */
  async process(
    options: ManagerOptions<never> & { readonly cold?: boolean } = {},
  ): Promise<Process> {
    const { cold = false, ...managerOptions } = options;
    const number = this.#processes.length + 1;
    const random = this.fake === null ? systemRandom : new FakeRandom(number);
    const made = new Process({
      label: `process ${number}`,
      driver: this.#opened.driver,
      clock: this.clock,
      onGrant: (ask, answer) => {
        this.beliefs.granted(ask, answer as Granted, this.clock.mono());
      },
      create: (driver, clock) =>
        this.#factory(
          clock,
          random,
          number,
        )(driver, {
          ttl: this.ttlMs,
          namespace: this.#namespace,
          ...managerOptions,
        }),
    });
    this.beliefs.follow(made.label, made.locks);
    this.#processes.push(made);
    if (!cold) await this.#warmUp(made);
    return made;
  }

  /** Opening may need real input and output even in fake time, so that time must stand still until it is done. */
  async #warmUp(made: Process): Promise<void> {
    const end = this.clock.mono() + OPENING_MS;
    for (;;) {
      try {
        await made.locks.inspect("warm-up");
        return;
      } catch (error) {
        // No promise is about how soon a busy machine makes a connection: what was begun goes on, and is asked for again.
        if (this.fake !== null || this.clock.mono() > end) throw error;
      }
    }
  }

  async processes(count: number): Promise<Process[]> {
    const made: Process[] = [];
    for (let i = 0; i < count; i += 1) made.push(await this.process());
    return made;
  }

  /** Lets `ms` pass. */
  async wait(ms: number): Promise<void> {
    if (this.fake !== null) await this.fake.advance(ms);
    else
      await new Promise<void>((resolve) => {
        this.clock.timer(ms, resolve, true);
      });
  }

  /** Waits until `work` settles, and fails when it does not within `withinMs`. */
  async settle<T>(work: Promise<T>, withinMs: number, what: string): Promise<T> {
    let settled = false;
    const note = (): void => {
      settled = true;
    };
    work.then(note, note);
    await this.until(() => settled, withinMs, what);
    return await work;
  }

  /** What `work` rejects with, within `withinMs`. */
  async rejection(work: Promise<unknown>, withinMs: number, what: string): Promise<unknown> {
    return await this.settle(
      work.then(
        (value) => assert.fail(`${what}: expected it to reject, got ${String(value)}`),
        (error: unknown) => error,
      ),
      withinMs,
      what,
    );
  }

  /** Waits until a condition is true, and fails when that takes longer than `withinMs`. */
  async until(condition: () => boolean, withinMs: number, what: string): Promise<void> {
    const end = this.clock.mono() + withinMs;
    await this.fake?.advance(0);
    while (!condition()) {
      const left = end - this.clock.mono();
      assert.ok(left > 0, `${what}: not within ${Math.round(withinMs)} ms`);
      // From timer to timer: a fixed step would miss what happens between two of them.
      const step = this.fake === null ? LOOK_MS : Math.max(1, this.fake.nextMs ?? left);
      // Never less than a millisecond: on a clock of large numbers a tiny rest may be no step at all.
      await this.wait(Math.max(1, Math.min(step, left)));
    }
  }

  /** Acquires within a turn. */
  async acquire(by: Process, name: string, options: AcquireOptions<never> = {}): Promise<AnyLease> {
    return await this.settle(
      by.locks.acquire(name, options),
      this.turnMs(),
      `${by.label} acquires "${name}"`,
    );
  }

  /** An acquire that has reached the backend and waits there. */
  async waiting(
    by: Process,
    name: string,
    options: AcquireOptions<never> = {},
  ): Promise<{ readonly lease: Promise<AnyLease> }> {
    const before = by.link.count("attempt");
    const answered = by.link.answers("attempt");
    const acquiring = by.locks.acquire(name, options);
    acquiring.catch(() => undefined);
    await this.until(
      () => by.link.count("attempt") > before,
      this.lagMs + 1000,
      `${by.label} asks for "${name}"`,
    );
    // In real time the backend takes what it takes; where a fault keeps the step from it, a second is enough.
    const end = this.clock.mono() + (this.fake === null ? 1000 : 0);
    do await this.wait(this.fake === null ? 20 : 0);
    while (by.link.answers("attempt") === answered && this.clock.mono() < end);
    // Wrapped, since an async function that returns a promise waits for it.
    return { lease: acquiring };
  }

  /** What the backend shows, seen by a process that no fault touches. */
  async record(name: string): Promise<LockInfo> {
    const observer = this.#observer ?? (await this.process());
    this.#observer = observer;
    return await observer.locks.inspect(name);
  }
  #observer: Process | undefined;

  /** Fails unless nothing of a name is left within `withinMs`: no holder, no waiter. */
  async becomesFree(name: string, withinMs: number): Promise<void> {
    const end = this.clock.mono() + withinMs;
    for (;;) {
      const { held, pending } = await this.record(name);
      if (held.length === 0 && pending.length === 0) return;
      assert.ok(
        this.clock.mono() < end,
        `"${name}" still has ${held.length} holders and ${pending.length} waiters`,
      );
      await this.wait(Math.max(LOOK_MS, withinMs / 50));
    }
  }

  /** The process ends as by SIGKILL, and with it its session. */
  async crash(victim: Process): Promise<void> {
    this.beliefs.endAll(victim.label);
    victim.kill();
    if (this.fixture.declares.liveness === "session") await this.endSession(victim);
  }

  /** Ends the session of a process's backend; the process runs on. */
  async endSession(victim: Process): Promise<void> {
    const opened = this.#opened;
    if (opened.endSession === undefined)
      throw new Error("This fixture has no `endSession`: add it, so that a session can end.");
    this.beliefs.endAll(victim.label);
    for (const backend of victim.link.backends) await opened.endSession(backend);
  }

  /** Ends everything, and fails when a promise that holds in every test was broken. */
  async close(): Promise<void> {
    process.off("unhandledRejection", this.#onRejection);
    for (const made of this.#processes) {
      if (!made.killed) {
        made.link.become("clear");
        made.clock.resume();
        await this.settle(made.locks.close(), 60_000, `${made.label} closes`);
      }
      await made.destroy();
    }
    await this.#opened.close();
    assert.deepEqual(this.beliefs.violations, []);
    assert.deepEqual(this.#rejections, [], "a rejection was not handled");
  }

  /** Lets go of everything after a test that failed already. */
  async abandon(): Promise<void> {
    process.off("unhandledRejection", this.#onRejection);
    for (const made of this.#processes) await made.destroy();
    await this.#opened.close();
  }

  #factory(clock: Clock, random: Random, number: number): CreateLockManager {
    const host: Host = {
      id: `${this.#namespace}-${number}`,
      name: "contract",
      pid: process.pid,
      bootId: "contract",
      timeNamespace: "contract",
    };
    return lockManagerFactory(() => ({
      clock,
      random,
      mac: systemMac,
      host,
      sinks: [],
      context: asyncContext,
      historySink: historyFile,
    }));
  }
}

function id(random: Random): string {
  return Buffer.from(random.bytes(12)).toString("base64url");
}

/** The fencing token; `null` where there is none. */
export function tokenOf(lease: AnyLease): bigint | null {
  const token = lease.toJSON()["token"];
  return typeof token === "string" ? BigInt(token) : null;
}
