import { connect } from "../../connect/index.ts";
import { createLockManager } from "../../index.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { eventOf, type Journal } from "./journal.ts";
import { call, listen } from "./redis-client.ts";

/** What a server has of a lock. */
interface Seen {
  readonly grant: string;
  readonly token?: bigint;
  readonly leftMs: number;
}

type Look = () => Promise<Seen | null>;

const EVERY_MS = 5;
/** For how long a free lock is kept for whom it is offered to. */
const OFFER_MS = 3000;
const SERVER = { name: "S", incarnation: 0 };

/**
 * Looks at a lock on the real server itself, every few milliseconds and past every fault, and writes down what comes and
 * goes: at most that much later than it happened. What is there for a shorter time is not seen.
 */
export class Observer {
  readonly #lock: string;
  readonly #journal: Journal;
  readonly #known = new Set<string>();
  #look: Look;
  #last: Seen | null = null;
  #over = false;
  /** Stops waiting for the server that is being asked. */
  #turn: () => void = () => undefined;
  readonly #loop: Promise<void>;

  constructor(lock: string, journal: Journal, look: Look) {
    this.#lock = lock;
    this.#journal = journal;
    this.#look = look;
    this.#loop = this.#run();
  }

  /** Another server is asked from now on. */
  turnTo(look: Look): void {
    this.#look = look;
    this.#turn();
  }

  async close(): Promise<void> {
    this.#over = true;
    this.#turn();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#over) {
      // A server that is down shows nothing new, and may take long to say so.
      const turned = new Promise<Seen | null>((resolve) => {
        this.#turn = () => {
          resolve(this.#last);
        };
      });
      const seen = await Promise.race([this.#look().catch(() => this.#last), turned]);
      this.#tell(seen);
      await new Promise<void>((resolve) => {
        systemClock.timer(EVERY_MS, resolve, true);
      });
    }
  }

  #tell(seen: Seen | null): void {
    const before = this.#last;
    this.#last = seen;
    if (before !== null && before.grant !== seen?.grant) {
      const lapsed = before.leftMs <= 4 * EVERY_MS;
      this.#write(lapsed ? "srv.expire" : "srv.release", before);
    }
    if (seen !== null && seen.grant !== before?.grant) {
      this.#write(this.#known.has(seen.grant) ? "srv.renew" : "srv.grant", seen);
      this.#known.add(seen.grant);
    }
  }

  #write(f: "srv.grant" | "srv.renew" | "srv.expire" | "srv.release", seen: Seen): void {
    const { grant, token, leftMs } = seen;
    const facts = { lock: this.#lock, grant, ...(token === undefined ? {} : { token }) };
    const ttl = f === "srv.grant" || f === "srv.renew" ? { ttlMs: leftMs } : {};
    this.#journal.write(eventOf(SERVER, "event", f, { ...facts, ...ttl }));
  }
}

/**
 * Writes down each waiter that Ringfence's Redis driver has told, on the server itself, that it is its turn. Who has not
 * come by the end of its offer has lost it, and the next one is told by the same release.
 */
export async function observeWakes(
  port: number,
  lock: string,
  journal: Journal,
): Promise<{ close(): void }> {
  let last: { readonly grant: string; readonly at: number } | null = null;
  const tell = (f: "wakeup" | "leave", grant: string): void => {
    journal.write(eventOf(SERVER, "event", f, { lock, grant }));
  };
  return await new Promise((resolve) => {
    const connection = listen(port, ["PSUBSCRIBE", "*"], ([kind, , channel, message]) => {
      if (kind === "psubscribe") resolve(connection);
      if (kind !== "pmessage" || String(channel).startsWith("__key")) return;
      const [grant, at] = [String(message), systemClock.mono()];
      if (last !== null && at - last.at >= OFFER_MS) tell("leave", last.grant);
      tell("wakeup", grant);
      last = { grant, at };
    });
  });
}

/** A lock that is a key whose value is the grant. */
export function keyOn(port: number, lock: string): Look {
  return async () => {
    const grant = await call(port, ["GET", lock]);
    if (typeof grant !== "string") return null;
    return { grant, leftMs: Number(await call(port, ["PTTL", lock])) };
  };
}

/** A lock of Ringfence, as its own store shows it. */
export function recordOn(
  url: string,
  lock: string,
): { readonly look: Look; waiting(): Promise<readonly string[]>; close(): Promise<void> } {
  // Who only looks may do so in a store that must not be trusted with a lock.
  const manager = connect(url).then((driver) => createLockManager(driver, { trustSettings: true }));
  return {
    look: async () => {
      const { held } = await (await manager).inspect(lock);
      const [first] = held;
      if (first === undefined) return null;
      const { grantId: grant, token, remainingMs } = first;
      return { grant, leftMs: remainingMs ?? 0, ...(token === null ? {} : { token }) };
    },
    waiting: async () =>
      (await (await manager).inspect(lock)).pending.map(({ grantId }) => grantId),
    close: async () => {
      await (await manager).close();
    },
  };
}

/**
 * Looks who stands in Ringfence's line for a lock, in the store's order, and writes down each whom it has not seen before.
 * Where somebody holds the lock all the while, nobody is served unseen.
 */
export class Line {
  readonly #lock: string;
  readonly #journal: Journal;
  readonly #record: ReturnType<typeof recordOn>;
  readonly #seen = new Set<string>();

  constructor(url: string, lock: string, journal: Journal) {
    this.#lock = lock;
    this.#journal = journal;
    this.#record = recordOn(url, lock);
  }

  /** How many have been seen in it by now. */
  async look(): Promise<number> {
    for (const grant of await this.#record.waiting()) {
      if (this.#seen.has(grant)) continue;
      this.#seen.add(grant);
      this.#journal.write(eventOf(SERVER, "event", "enqueue", { lock: this.#lock, grant }));
    }
    return this.#seen.size;
  }

  async close(): Promise<void> {
    await this.#record.close();
  }
}
