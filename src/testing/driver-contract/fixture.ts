import type { Capabilities, Declaration } from "../../core/capabilities.ts";
import type { Clock } from "../../core/clock.ts";
import type { Backend, Driver } from "../../core/driver.ts";
import type { World } from "./world.ts";

/** The two functions of a test runner that a contract needs: Vitest's, Jest's, or those of node:test. */
export interface ContractRunner {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

/** A driver under test, and how to let go of it. */
export interface OpenedDriver<C extends Capabilities = Capabilities> {
  readonly driver: Driver<C>;
  /** Ends what `open` began: clients, subscriptions, files. The server and its data may stay. */
  close(): Promise<void>;
  /**
   * Required where liveness is "session": ends this backend's session as a crash would, without releasing anything.
   */
  endSession?(backend: Backend): Promise<void>;
}

/** What a contract is told about a driver. */
export interface DriverFixture<C extends Capabilities = Capabilities> {
  readonly name: string;
  /** What the driver declares, known before it is opened: it decides which promises are checked. */
  readonly declares: Declaration<C>;
  /**
   * Makes the driver; called once for each test. Several backends are opened from it, one for each "process", in a
   * namespace that no other test uses. A simulated server takes the given clock; a real one ignores it.
   */
  open(clock: Clock): Promise<OpenedDriver<C>>;
  /** `"fake"`: waiting moves a `FakeClock`, and all of the driver's time is that clock. `"real"`, the default, sleeps. */
  readonly time?: "fake" | "real";
  /**
   * The ttl of leases that are meant to lapse, in milliseconds; all of them where liveness is "session". By default 10 s
   * in fake time, and in real time the shortest that the driver allows, but at least 400 ms.
   */
  readonly lapsingTtlMs?: number;
  /**
   * How long an entry near the head of the queue is kept without being heard of, in milliseconds. In real time the tests
   * of silent waiters run only where it is given and at most 4 s.
   */
  readonly keepEntryMs?: number;
  /** How much later than its due time a backend may notice a lapse; 0 in fake time and 500 ms in real time by default. */
  readonly lagMs?: number;
}

/** One promise and its test. */
interface Promised {
  /** A whole sentence that is false when the test fails. */
  readonly promise: string;
  /** The reason why it does not apply to such a driver, or `null`. */
  readonly excuse?: (fixture: DriverFixture) => string | null;
  run(world: World): Promise<void>;
}

/** The promises that come with one capability. */
export interface ContractModule {
  readonly name: string;
  /** The reason why the whole module does not apply to such a driver, or `null`. */
  excuse(fixture: DriverFixture): string | null;
  readonly promises: readonly Promised[];
}

/** Excuse of promises that rest on a lease's own ttl. */
export function noTtl({ declares }: DriverFixture): string | null {
  return declares.liveness === "ttl" ? null : `liveness is "${declares.liveness}"`;
}

/** Excuse of promises about a moment by which the backend itself knows that a lease is over. */
export function nobodyCounts(fixture: DriverFixture): string | null {
  return fixture.declares.clock === "observer" ? 'clock is "observer"' : noTtl(fixture);
}

export function noQueue({ declares }: DriverFixture): string | null {
  return declares.waiting === "queue" ? null : `waiting is "${declares.waiting}"`;
}

export function noTokens({ declares }: DriverFixture): string | null {
  return declares.fencing === "none" ? 'fencing is "none"' : null;
}

/** Excuse of promises about a counter that the driver itself can raise. */
export function noCounter(fixture: DriverFixture): string | null {
  return fixture.declares.mints === "at-enqueue" ? 'mints is "at-enqueue"' : noTokens(fixture);
}

/** Excuse of promises about clocks that only a fake one can keep or break. */
export function realTime({ time }: DriverFixture): string | null {
  return time === "fake" ? null : "time is real";
}

/** The first of several excuses. */
export function anyOf(
  ...excuses: readonly ((fixture: DriverFixture) => string | null)[]
): (fixture: DriverFixture) => string | null {
  return (fixture) => {
    for (const excuse of excuses) {
      const reason = excuse(fixture);
      if (reason !== null) return reason;
    }
    return null;
  };
}
