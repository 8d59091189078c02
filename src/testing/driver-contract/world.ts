import assert from "node:assert/strict";
import type { Clock } from "../../core/clock.ts";
import type {
  Answer,
  Ask,
  Backend,
  Busy,
  Granted,
  GrantRef,
  Io,
  LockRecord,
  Notice,
  Release,
  Renewal,
} from "../../core/driver.ts";
import type { Random } from "../../core/random.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import { FakeClock } from "../fake-clock.ts";
import { FakeRandom } from "../fake-random.ts";
import type { DriverFixture, OpenedDriver } from "./fixture.ts";

const HOUR_MS = 3_600_000;
/** In real time a waiter polls this often, so that a test takes no longer than the backend needs. */
const REAL_POLL_MS = 25;
const STALLED_TRIES = 5;
/** Whoever persists asks so often at most: a driver that says "ask again at once" must not make a test endless. */
const MAX_ASKS = 500;
/** Time enough: what hangs is the test runner's to end. */
const IO: Io = { timeoutMs: 30_000, signal: new AbortController().signal };

/** One test's surroundings: a driver, a clock, a namespace of its own, and as many "processes" as it wants. */
export class World {
  readonly fixture: DriverFixture;
  readonly namespace: string;
  readonly clock: Clock;
  /** The clock as a fake one, for tests that are excused in real time. */
  readonly fake: FakeClock | null;
  /** A ttl that does not end within a test, except where every lease must have the session's. */
  readonly longMs: number;
  /** The ttl of a lease that is meant to lapse. */
  readonly shortMs: number;
  readonly lagMs: number;
  readonly #random: Random;
  readonly #opened: OpenedDriver;
  readonly #parties: Party[] = [];
  #names = 0;

  constructor(fixture: DriverFixture, clock: Clock, opened: OpenedDriver) {
    const { minMs, stepMs } = fixture.declares.ttl;
    this.fixture = fixture;
    this.clock = clock;
    this.fake = clock instanceof FakeClock ? clock : null;
    this.#opened = opened;
    this.#random = this.fake === null ? systemRandom : new FakeRandom();
    this.namespace = `contract-${this.id()}`;
    const short = fixture.lapsingTtlMs ?? Math.max(minMs, this.fake === null ? 400 : 10_000);
    this.shortMs = Math.ceil(short / stepMs) * stepMs;
    this.longMs = fixture.declares.liveness === "session" ? this.shortMs : HOUR_MS;
    this.lagMs = fixture.lagMs ?? (this.fake === null ? 500 : 0);
  }

  static async open(fixture: DriverFixture): Promise<World> {
    const clock = fixture.time === "fake" ? new FakeClock() : systemClock;
    return new World(fixture, clock, await fixture.open(clock));
  }

  get driver(): OpenedDriver["driver"] {
    return this.#opened.driver;
  }

  /** 160 random bits, as a grant id is. */
  id(): string {
    return Buffer.from(this.#random.bytes(20)).toString("base64url");
  }

  /** A lock name that this test has not used yet. */
  name(): string {
    this.#names += 1;
    return `name-${this.#names}`;
  }

  /** One more process: a backend of its own, by default in this test's namespace. */
  async party(namespace: string = this.namespace): Promise<Party> {
    const number = this.#parties.length + 1;
    const notices: Notice[] = [];
    const backend = await this.driver.open({
      clock: this.clock,
      random: this.#random,
      host: {
        id: this.id(),
        name: "contract",
        pid: process.pid,
        bootId: "contract",
        timeNamespace: "contract",
      },
      namespace,
      notify: (notice) => notices.push(notice),
    });
    const party = new Party(this, backend, notices, `party ${number}`);
    this.#parties.push(party);
    return party;
  }

  async parties(count: number): Promise<Party[]> {
    const parties: Party[] = [];
    for (let i = 0; i < count; i += 1) parties.push(await this.party());
    return parties;
  }

  /** Lets `ms` pass. */
  async wait(ms: number): Promise<void> {
    if (this.fake !== null) await this.fake.advance(ms);
    else await new Promise<void>((resolve) => this.clock.timer(ms, resolve, true));
  }

  /** Waits until `true`, for what comes on its own (a wake); `false` when it did not come within the lag and a second. */
  async comes(condition: () => boolean): Promise<boolean> {
    const end = this.clock.mono() + (this.fake === null ? this.lagMs + 1000 : 0);
    await this.fake?.drain();
    while (!condition() && this.clock.mono() < end) await this.wait(5);
    return condition();
  }

  /**
   * The holder of `ask` stops without releasing. Where its lease has a ttl of its own, that passes; somebody who wants
   * the lock may still have to persist.
   */
  async vanish(holder: Party, ask: Ask): Promise<void> {
    if (this.fixture.declares.liveness === "ttl") await this.wait(ask.ttlMs + this.lagMs);
    else if (this.#opened.endSession !== undefined) await this.#opened.endSession(holder.backend);
    else throw new Error("This fixture has no `endSession`: add it, so that a holder can vanish.");
  }

  /** The longest that one who persists may need to get in after a holder and, before it, `dead` waiters vanished. */
  takeoverMs(ask: Ask, dead = 0): number {
    return (ask.ttlMs + ask.lockDelayMs) * (1 + dead) + this.lagMs * (2 + dead);
  }

  /**
   * Runs a test that asserts something about a lease which a stalled process would have lost, and runs it again when
   * that happened: `valid(ms)`, called just before a request, says for how long its assertions are due from then on;
   * `from` says it of a request that was sent then, once what was due before has been looked at.
   */
  async steady(body: (valid: (ms: number, from?: number) => void) => Promise<void>): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      let until = Number.POSITIVE_INFINITY;
      try {
        await body((ms, from = this.clock.mono()) => {
          until = from + ms;
        });
        return;
      } catch (error) {
        if (this.clock.mono() < until || attempt === STALLED_TRIES) throw error;
      }
    }
  }

  async close(): Promise<void> {
    for (const party of this.#parties) await party.backend.close();
    await this.#opened.close();
  }
}

/** One process that uses the backend. */
export class Party {
  readonly backend: Backend;
  readonly notices: readonly Notice[];
  readonly label: string;
  readonly #world: World;

  constructor(world: World, backend: Backend, notices: readonly Notice[], label: string) {
    this.#world = world;
    this.backend = backend;
    this.notices = notices;
    this.label = label;
  }

  /** A new ask of this party: exclusive, with the long ttl, leaving nothing behind, unless said otherwise. */
  ask(name: string, terms: Partial<Ask> = {}): Ask {
    return {
      name,
      mode: "exclusive",
      permits: 1,
      grantId: this.#world.id(),
      holder: this.label,
      ttlMs: this.#world.longMs,
      lockDelayMs: 0,
      tokens: 1,
      join: "no",
      ...terms,
    };
  }

  async attempt(ask: Ask): Promise<Answer> {
    return this.backend.attempt(ask, IO);
  }

  /** Asks, and fails unless it is granted. */
  async granted(ask: Ask): Promise<Granted> {
    const answer = await this.attempt(ask);
    assert.equal(answer.kind, "granted", `expected a grant, got ${said(answer)}`);
    return answer;
  }

  /** Asks, and fails unless it is refused. */
  async busy(ask: Ask): Promise<Busy> {
    const answer = await this.attempt(ask);
    assert.equal(answer.kind, "busy", `expected busy, got ${said(answer)}`);
    return answer;
  }

  /** A new exclusive ask that must be granted: who has it, for later calls. */
  async hold(name: string, terms: Partial<Ask> = {}): Promise<Ask & { readonly got: Granted }> {
    const ask = this.ask(name, terms);
    return { ...ask, got: await this.granted(ask) };
  }

  /** A new ask that must find itself in the queue. */
  async queue(name: string, terms: Partial<Ask> = {}): Promise<Ask & { readonly told: Busy }> {
    const ask = this.ask(name, { join: "yes", ...terms });
    const told = await this.busy(ask);
    assert.equal(told.queued, true, "expected to be queued");
    return { ...ask, told };
  }

  /** Asks again and again, as a lock manager does that hears no wake-ups, until it is granted or `withinMs` is over. */
  async persist(ask: Ask, withinMs: number): Promise<Answer> {
    const clock = this.#world.clock;
    const end = clock.mono() + withinMs;
    let join = ask.join;
    let seen: { readonly version: string; readonly since: number } | undefined;
    for (;;) {
      const now = clock.mono();
      const watched =
        seen === undefined ? {} : { seen: { version: seen.version, forMs: now - seen.since } };
      const answer = await this.attempt({ ...ask, ...watched, join });
      if (answer.kind !== "busy" || clock.mono() >= end) return answer;
      if (answer.queued) join = "kept";
      let wait = Math.min(answer.askAgainMs, answer.keepEntryMs / 3, end - clock.mono());
      if (answer.observe !== undefined) {
        if (seen?.version !== answer.observe.version)
          seen = { version: answer.observe.version, since: clock.mono() };
        wait = Math.min(wait, answer.observe.leaseMs - (clock.mono() - seen.since));
      }
      if (this.#world.fake === null) wait = Math.min(wait, REAL_POLL_MS);
      await this.#world.wait(Math.max(1, wait, withinMs / MAX_ASKS));
    }
  }

  /** Persists, and fails unless it is granted in time. */
  async takesOver(ask: Ask, withinMs: number = this.#world.takeoverMs(ask)): Promise<Granted> {
    const answer = await this.persist(ask, withinMs);
    assert.equal(answer.kind, "granted", `expected to get in, got ${said(answer)}`);
    return answer;
  }

  async renew(...grants: readonly GrantRef[]): Promise<readonly Renewal[]> {
    return this.backend.renew(grants, IO);
  }

  async release(...grants: readonly GrantRef[]): Promise<readonly Release[]> {
    return this.backend.release(grants, IO);
  }

  /** Releases, and fails unless the backend says that it was there. */
  async gives(ask: GrantRef): Promise<void> {
    const [release] = await this.release(ask);
    assert.equal(release?.kind, "released", `expected to release, got ${said(release)}`);
  }

  async revoke(name: string, grantId: string, now = false): Promise<Release> {
    return this.backend.revoke({ name, grantId, now }, IO);
  }

  async inspect(name: string): Promise<LockRecord> {
    return this.backend.inspect(name, IO);
  }

  async list(
    prefix = "",
    limit = 1000,
    cursor?: string,
  ): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
    const page = cursor === undefined ? { prefix, limit } : { prefix, limit, cursor };
    return this.backend.list(page, IO);
  }

  /** How often this entry's turn was announced. */
  wakes({ grantId }: { readonly grantId: string }): number {
    return this.notices.filter((notice) => notice.kind === "wake" && notice.grantId === grantId)
      .length;
  }
}

/** Fails unless a grant carries tokens. */
export function tokensOf(grant: Granted): { readonly first: bigint; readonly last: bigint } {
  assert.ok(grant.tokens !== null, "expected a fencing token");
  const { first, count } = grant.tokens;
  return { first, last: first + BigInt(count - 1) };
}

/** An answer in words, for messages. */
export function said(answer: unknown): string {
  return JSON.stringify(answer, (_key, value: unknown) =>
    typeof value === "bigint" ? `${value}n` : value,
  );
}

/** Two processes. */
export async function pair(world: World): Promise<[Party, Party]> {
  return [await world.party(), await world.party()];
}
