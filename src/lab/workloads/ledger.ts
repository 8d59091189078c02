import { RingfenceError } from "../../core/errors.ts";
import type { Wire } from "../../drivers/postgres/client.ts";
import type { Statement } from "../../drivers/sql/statement.ts";
import { type PgPool, type PostgresGuard, postgresGuard } from "../../guards/postgres/index.ts";
import type { ClientProcess, ClientWorld, Held } from "../clients/client.ts";
import { CoreHeld } from "../clients/core-client.ts";
import { PLAIN } from "../servers/postgres-plain.ts";
import type { Facts } from "../sim/probe.ts";

/** How somebody updates a row that a lock protects. */
export interface Update {
  /** Without our guard: whether the guard's row is locked, or only looked at, and whether a newer token is refused. */
  readonly row: "locked" | "looked at";
  readonly refuses: boolean;
  /** The transaction has an older snapshot: REPEATABLE READ, with a read before anything else. */
  readonly old?: boolean;
  /** For how long the process stands still between its read and its write, in milliseconds. */
  readonly pauseMs?: number;
}

/** What a row of `lab_versions` says about who wrote it. */
interface Written {
  readonly p: string;
  readonly inc: number;
  readonly lock: string;
  readonly grant: string;
  readonly token: string | null;
  readonly from: number;
}

/** What one process has of the database, simulated or real. */
export interface LedgerPlace<P extends ClientProcess = ClientProcess> {
  /** A session of its own. */
  dial(client: P): Promise<Wire>;
  /** What the production guard takes. */
  pool(client: P): Promise<PgPool>;
  /** Stops the process here; resolves when it goes on. */
  stop(client: P, ms: number): Promise<void>;
}

const RES = "R";
const COMMIT = "COMMIT";

type Run = (statement: Statement, ...args: string[]) => Promise<readonly string[]>;

/**
 * Data in a PostgreSQL, with a guard's row beside it: each write adds a version, so that no two writes meet by
 * themselves. Who holds a lease of Ringfence uses the production guard; others do it by hand. What has landed is told by
 * the rows that are committed: see `landed`.
 */
export class Ledger<P extends ClientProcess> {
  readonly #probe: ClientWorld["probe"];
  readonly #place: LedgerPlace<P>;
  readonly #guard: PostgresGuard = postgresGuard();

  constructor(world: ClientWorld, place: LedgerPlace<P>) {
    this.#probe = world.probe;
    this.#place = place;
  }

  /** One update under a lease: whether it was committed. */
  async update(client: P, held: Held, how: Update): Promise<boolean> {
    const facts = { op: this.#probe.op(), res: RES, ...factsOf(held) };
    this.#probe.ev(client, "invoke", "write", facts);
    const ours = held instanceof CoreHeld;
    const done = ours
      ? await this.#guarded(client, held, how)
      : await this.#byHand(client, held, how);
    this.#probe.ev(client, done ? "ok" : "fail", "write", facts);
    return done;
  }

  /** By the production guard. */
  async #guarded(client: P, held: CoreHeld, how: Update): Promise<boolean> {
    const pool = await this.#place.pool(client);
    try {
      await this.#guard.run(pool, RES, held.lease as never, async (tx) => {
        await this.#write(client, held, how, async ({ text }, ...args) => {
          const { rows } = await tx.query(text, args);
          return rows.map((row) => String(Object.values(row as object)[0]));
        });
      });
      return true;
    } catch (error) {
      if (error instanceof RingfenceError) return false;
      throw error;
    }
  }

  async #byHand(client: P, held: Held, how: Update): Promise<boolean> {
    const wire = await this.#place.dial(client);
    const run: Run = async (statement, ...args) => wire.run({ statement, args }, false);
    const token = held.token ?? 0n;
    const claim = async (): Promise<void> => {
      await run(PLAIN.setGuard, RES, String(token), held.grant);
    };
    try {
      // By itself, or in the transaction that it is for.
      if (how.refuses && how.old !== true) await claim();
      await run(how.old === true ? PLAIN.oldBegin : PLAIN.plainBegin);
      if (how.old === true) await run(PLAIN.readVersion, RES);
      const [seen] = await run(how.row === "locked" ? PLAIN.lockGuard : PLAIN.readGuard, RES);
      if (how.refuses && token < BigInt(seen?.split("|")[0] ?? 0)) return false;
      if (how.refuses && how.old === true) await claim();
      await this.#write(client, held, how, run);
      await wire.script(COMMIT);
      return true;
    } finally {
      wire.destroy();
    }
  }

  /** Reads, stands still, and writes what is based on that. */
  async #write(client: P, held: Held, { pauseMs }: Update, run: Run): Promise<void> {
    const [from = "0"] = await run(PLAIN.readVersion, RES);
    const facts = { res: RES, ...factsOf(held) };
    this.#probe.ev(client, "event", "read", { ...facts, ver: Number(from) });
    if (pauseMs !== undefined) await this.#place.stop(client, pauseMs);
    const { lock, grant, token } = held;
    const by: Written = {
      p: client.name,
      inc: client.incarnation,
      lock,
      grant,
      token: token?.toString() ?? null,
      from: Number(from),
    };
    const [ver = "0"] = await run(PLAIN.drawToken);
    await run(PLAIN.addVersion, RES, ver, JSON.stringify(by));
  }
}

/** Who wrote a version that was committed, and what that leaves in the history. */
export function landed(
  ver: number,
  by: string,
): { readonly who: Pick<ClientProcess, "name" | "incarnation">; readonly facts: Facts } {
  const { p, inc, lock, grant, token, from } = JSON.parse(by) as Written;
  const facts = { res: RES, lock, grant, from, ver, accepted: true, path: "job" };
  return {
    who: { name: p, incarnation: inc },
    facts: token === null ? facts : { ...facts, token: BigInt(token) },
  };
}

function factsOf({ lock, grant, token }: Held): Pick<Facts, "lock" | "grant" | "token"> {
  return { lock, grant, token };
}
