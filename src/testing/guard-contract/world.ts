import assert from "node:assert/strict";
import type { Mode } from "../../core/capabilities.ts";
import { LeaseLostError, type RingfenceError } from "../../core/errors.ts";
import type { FencingToken } from "../../core/fencing-token.ts";
import type { Credential, GuardOptions, Presented, Resources } from "../../core/guard.ts";
import type { FencedLease } from "../../core/lease.ts";
import { type SequencerKey, writeSequencer } from "../../core/sequencer.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { FencedRows, GuardFixture, GuardUnderTest, OpenedResource } from "./fixture.ts";

/** The resource, and the key of its value, that most promises are about. */
export const RESOURCE = "documents/7";

/** What of a fake lease differs from a good one. */
interface LeaseFacts {
  readonly mode?: Mode;
  readonly token?: bigint | undefined;
  readonly lost?: () => boolean;
}

/** One test's surroundings: an empty resource, its guard, and holders that some lock service let in. */
export class World {
  readonly fixture: GuardFixture;
  readonly guard: GuardUnderTest;
  readonly #opened: OpenedResource;
  /** The scope of the lock that the test is about. */
  readonly scope: string = id();

  constructor(fixture: GuardFixture, opened: OpenedResource) {
    this.fixture = fixture;
    this.#opened = opened;
    this.guard = opened.guard();
  }

  static async open(fixture: GuardFixture): Promise<World> {
    return new World(fixture, await fixture.open());
  }

  async close(): Promise<void> {
    await this.#opened.close();
  }

  /** One holder's connection, and another's. */
  get db(): unknown {
    return this.#opened.db;
  }

  get other(): unknown {
    return this.#opened.other;
  }

  guardWith(options: GuardOptions): GuardUnderTest {
    return this.#opened.guard(options);
  }

  /** A holder with this token, known by its bare pair. */
  holder(token: bigint, scope: string = this.scope): Presented {
    return { token, grantId: id(), scope, trust: true };
  }

  /** A lease as a manager of this process gives it, as far as a guard looks at it. */
  lease(token: bigint, facts: LeaseFacts = {}): FencedLease {
    const { mode = "exclusive", lost = () => false } = facts;
    const given = "token" in facts ? facts.token : token;
    const lease = {
      name: "contract",
      mode,
      grantId: id(),
      scope: this.scope,
      ...(given === undefined ? {} : { token: given as FencingToken }),
      assertHeld: (): void => {
        if (lost()) throw new LeaseLostError("contract", "expired", token);
      },
      remainingMs: (): number => (lost() ? 0 : 30_000),
    };
    return lease as unknown as FencedLease;
  }

  /** The holder's sequencer, signed where a key is given. */
  sequencer(
    { token, grantId, scope }: Presented,
    key?: SequencerKey,
    mode: Mode = "exclusive",
  ): string {
    return writeSequencer({ name: "contract", mode, token, grantId, scope }, key, systemMac);
  }

  async claim(holder: Credential, resources: Resources = RESOURCE): Promise<void> {
    await this.guard.claim(this.db, resources, holder);
  }

  /** Verifies in a transaction of its own. */
  async verify(holder: Credential, resources: Resources = RESOURCE): Promise<void> {
    await this.transaction((tx): unknown => this.guard.verify(tx, resources, holder));
  }

  /** A guarded write of a long job: verify and write in one transaction. */
  async write(holder: Credential, value: string, key: string = RESOURCE): Promise<void> {
    await this.transaction((tx): unknown =>
      after(this.guard.verify(tx, key, holder), (): unknown => this.writeIn(tx, key, value)),
    );
  }

  /** The stored value. */
  async value(key: string = RESOURCE, db: unknown = this.db): Promise<string | null> {
    let found: string | null = null;
    await this.transaction(
      (tx): unknown =>
        after(this.readIn(tx, key), (value) => {
          found = value;
        }),
      db,
    );
    return found;
  }

  async transaction(body: (tx: unknown) => unknown, db: unknown = this.db): Promise<void> {
    await this.#opened.transaction(db, body);
  }

  readIn(tx: unknown, key: string = RESOURCE): string | null | Promise<string | null> {
    return this.#opened.read(tx, key);
  }

  writeIn(tx: unknown, key: string, value: string): void | Promise<void> {
    return this.#opened.write(tx, key, value);
  }

  async begin(): Promise<{ tx: unknown; commit(): Promise<void>; rollback(): Promise<void> }> {
    const opened = this.#opened;
    if (opened.begin === undefined)
      throw new Error(
        "The fixture says that it has open transactions, but its resource has no `begin`.",
      );
    return opened.begin(this.db);
  }

  get rows(): FencedRows {
    const { rows } = this.#opened;
    if (rows === undefined)
      throw new Error("The fixture says that it has fenced rows, but its resource has no `rows`.");
    return rows;
  }

  /** For promises about what others do meanwhile. */
  async pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      systemClock.timer(ms, resolve, true);
    });
  }
}

/** 160 random bits, as a grant id or scope is. */
export function id(): string {
  return Buffer.from(systemRandom.bytes(20)).toString("base64url");
}

/** Calls `fn` with the value: at once, or when the promise for it is fulfilled. For bodies that may have to be synchronous. */
export function after<T, R>(value: T | Promise<T>, fn: (value: T) => R): R | Promise<Awaited<R>> {
  return value instanceof Promise ? (value.then(fn) as Promise<Awaited<R>>) : fn(value);
}

/** Asserts that the attempt is refused with this class of error, and returns the error. */
export async function refused<E extends RingfenceError>(
  type: (abstract new (...args: never[]) => E) & { readonly brandName: string },
  attempt: () => unknown,
): Promise<E> {
  try {
    await attempt();
  } catch (error) {
    assert.ok(error instanceof type, `expected ${type.brandName}, got ${String(error)}`);
    return error;
  }
  return assert.fail(`expected ${type.brandName}, but it passed`);
}
