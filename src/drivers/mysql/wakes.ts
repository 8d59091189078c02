import type { Clock, Timer } from "../../core/clock.ts";
import type { Random } from "../../core/random.ts";
import { LinkError } from "../sql/link-error.ts";
import { CONNECT_TIMEOUT_MS } from "../sql/session.ts";
import type { Sessions } from "../sql/sessions.ts";
import { type Connection, DATABASE, rowsOf } from "./connection.ts";
import { numberOf } from "./errors.ts";
import { encoded, type Tables } from "./options.ts";
import { NOW } from "./sql-parts.ts";
import type { Turn } from "./step.ts";

/** How long one statement sleeps, in seconds; it ends at once when somebody rings. */
const SLEEP_S = 20;
/** How the statement that sleeps begins. */
const SLEEPS = "DO SLEEP(";
/** The statement was ended. */
const INTERRUPTED = 1317;
/** How long ringing may take. */
const RING_MS = 2000;

/** How wake-ups reach this process. */
export interface WakeOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly tables: Tables;
  /** For ringing at others. */
  readonly sessions: Sessions<Connection>;
  /** Makes a session that is set up. */
  readonly dial: () => Promise<Connection>;
  readonly onWake: (grantId: string) => void;
  /** Those of this process who wait for a wake-up. */
  readonly waiting: ReadonlySet<string>;
  /** It listens, for the first time or again: what was told before is lost. */
  readonly onListening: () => void;
}

/**
 * A server without notifications can still end a statement that sleeps. One session of this process sleeps, from the first
 * waiter on; whoever offers this process a lock ends the sleep, and the session looks at what is offered. A random word in
 * the statement is the channel: nothing is ended but a sleep with that word, since the numbers of sessions begin anew when
 * the server does. No wake-up is ever load-bearing: users with other names may not ring at each other.
 */
export class Wakes {
  readonly #options: WakeOptions;
  /** Where this process is told. */
  readonly channel: string;
  #connection: Connection | undefined;
  #timer: Timer | undefined;
  #first: Promise<void> | undefined;
  #closed = false;
  #failures = 0;

  constructor(options: WakeOptions) {
    this.#options = options;
    this.channel = Buffer.from(options.random.bytes(12)).toString("hex");
  }

  /** Whether this process is told. */
  get listening(): boolean {
    return this.#connection?.open === true;
  }

  /** Begins to listen, once. Resolves when the first try has ended, well or not; never rejects. */
  async start(): Promise<void> {
    this.#first ??= this.#listen();
    await this.#first;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#connection?.end(closed());
  }

  /** Tells the processes of waiters, those of this one at once. What fails is left to their own asking. */
  ring(waiters: readonly Turn[]): void {
    const far = waiters.filter(({ channel, grant }) => {
      if (channel !== this.channel) return true;
      this.#options.onWake(grant);
      return false;
    });
    const channels = new Set(far.map(({ channel }) => channel));
    if (channels.size > 0 && !this.#closed) void this.#ringAt([...channels]).catch(() => undefined);
  }

  async #ringAt(channels: readonly string[]): Promise<void> {
    const { clock, sessions } = this.#options;
    const dueAt = clock.mono() + RING_MS;
    await sessions.use(dueAt, async (connection) => {
      for (const channel of channels)
        await connection.script(bell(channel), dueAt).catch((error: unknown) => {
          // It does not sleep, has woken up by itself, or is another user's.
          if (numberOf(error) === undefined) throw error;
        });
    });
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    const { dial, onListening } = this.#options;
    try {
      const connection = await dial();
      this.#connection = connection;
      if (this.#closed) connection.end(closed());
      else {
        this.#failures = 0;
        const again = (): void => {
          connection.end(closed());
          this.#again();
        };
        void this.#sleep(connection).then(again, again);
        onListening();
      }
    } catch {
      // Without it waiters poll: a server that has no session left for it costs speed, not locks.
      this.#again();
    }
  }

  /** Sleeps and looks in turn, for as long as the session lasts. Looks first: what was told on the way is not lost. */
  async #sleep(connection: Connection): Promise<void> {
    const { clock, tables, onWake, waiting } = this.#options;
    const look = `SELECT grant_id FROM ${tables.waiters} WHERE channel = ${encoded(this.channel)} AND offered > ${NOW}`;
    // Offers that were seen already are told once.
    let seen: readonly string[] = [];
    while (connection.open && !this.#closed) {
      const found = await rung(connection.script(look, clock.mono() + CONNECT_TIMEOUT_MS));
      // A bell that was rung twice may end the look.
      if (found === undefined) continue;
      const offers = rowsOf(found[0]).map(([id]) => id ?? "");
      for (const grantId of offers) if (!seen.includes(grantId)) onWake(grantId);
      seen = offers;
      const slept = clock.mono();
      const text = `${SLEEPS}${SLEEP_S}) /* ${this.channel} */`;
      await rung(connection.script(text, slept + SLEEP_S * 1000 + CONNECT_TIMEOUT_MS));
      const [only] = waiting;
      // Whom the bell was for goes without saying: it need not wait for the look.
      const early = clock.mono() - slept < SLEEP_S * 900;
      if (early && only !== undefined && waiting.size === 1) onWake(only);
    }
  }

  #again(): void {
    if (this.#closed) return;
    const { clock, random } = this.#options;
    this.#failures += 1;
    const ceiling = Math.min(5000, 50 * 2 ** Math.min(this.#failures, 10));
    this.#timer = clock.timer(1 + random.unit() * ceiling, () => void this.#listen());
  }
}

/**
 * Ends the statement of a channel while it sleeps, and not one that asks for it. Both in one message: nothing else can
 * begin in that session by the time between two.
 */
function bell(channel: string): string {
  const sleeps = `info LIKE ${encoded(`${SLEEPS}%${channel}%`)}`;
  return `SET @ringfence_bell = (SELECT id FROM information_schema.processlist WHERE ${sleeps} LIMIT 1);
KILL QUERY @ringfence_bell`;
}

/** What a statement came to; `undefined` when the bell ended it. */
async function rung<T>(statement: Promise<T>): Promise<T | undefined> {
  try {
    return await statement;
  } catch (error) {
    if (numberOf(error) !== INTERRUPTED) throw error;
    return undefined;
  }
}

function closed(): LinkError {
  return new LinkError(`the session with ${DATABASE} was closed`, { sent: true });
}
