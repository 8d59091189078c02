import type { Answer, Database, Session, Work } from "./client.ts";
import { ended, isGone, isTimeout, rolledBack } from "./errors.ts";
import { BEGIN } from "./sql.ts";

/** A connection of `pg`, as far as the guard uses it. */
export interface PgClient {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{
    readonly rows: unknown[];
    readonly rowCount: number | null;
    /** What the server did, which need not be what was asked: a COMMIT may answer `"ROLLBACK"`. */
    readonly command: string;
  }>;
  /** From 8.19 on: `"I"` idle, `"T"` in a transaction, `"E"` in a failed one. */
  getTransactionStatus?(): string | null;
}

interface PgPoolClient extends PgClient {
  release(destroy?: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
}

/** A `Pool` of `pg`, as far as the guard uses it. */
export interface PgPool {
  connect(): Promise<PgPoolClient>;
  connect(hand: (error: Error | undefined, client: PgPoolClient | undefined) => void): unknown;
  readonly totalCount: number;
}

export function pgSession(client: PgClient): Session {
  return {
    endsWell: true,
    async query(text, values = []): Promise<Answer> {
      const { rows, rowCount } = await client.query(text, [...values]);
      return { rows: rows as Answer["rows"], count: rowCount ?? 0 };
    },
    open() {
      const status = client.getTransactionStatus?.();
      return typeof status === "string" ? status !== "I" : undefined;
    },
  };
}

export function pgDatabase(pool: PgPool): Database {
  return {
    preparesCommit: false,
    async transaction<T>(work: Work<T>): Promise<T> {
      // The server may end the session while no statement runs; without a listener that would end the process.
      let broken = false;
      const note = (): void => {
        broken = true;
      };
      const client = await taken(pool, note).catch((error: unknown) => {
        throw work.failed("begin", error);
      });
      try {
        return await transaction(client, work, { note, broken: () => broken });
      } finally {
        client.off("error", note);
        client.release(broken);
      }
    },
  };
}

/**
 * A client of the pool that has its listener from the first moment on: the pool takes its own away as it hands the client
 * over, and the word that the session is over may be in the very packet that says that it began. A promise of the pool's
 * would be too late for that.
 */
async function taken(pool: PgPool, note: () => void): Promise<PgPoolClient> {
  return await new Promise((resolve, reject) => {
    const hand = (error: Error | undefined, client: PgPoolClient | undefined): void => {
      client?.on("error", note);
      if (client === undefined) reject(error ?? new Error("the pool gave no client"));
      else resolve(client);
    };
    const promised = pool.connect(hand) as Promise<PgPoolClient> | undefined;
    // One that somebody wrapped may know promises only.
    promised?.then((client) => {
      hand(undefined, client);
    }, reject);
  });
}

/** Begins, and resolves to the answer of the last statement of the message. */
async function begun<T>(client: PgPoolClient, { settings, first }: Work<T>): Promise<Answer> {
  const text = `${BEGIN}; ${settings}`;
  const answer = await client.query(first === undefined ? text : `${text};\n${first}`);
  // One for each statement, where there are several.
  const { rows, rowCount } = Array.isArray(answer) ? (answer.at(-1) as typeof answer) : answer;
  return { rows: rows as Answer["rows"], count: rowCount ?? 0 };
}

async function transaction<T>(
  client: PgPoolClient,
  work: Work<T>,
  session: { readonly note: () => void; readonly broken: () => boolean },
): Promise<T> {
  const first = begun(client, work);
  try {
    await first;
  } catch (error) {
    // What the server refused is the statement that went along: it began. The body hears of it, as of any other.
    if (work.first === undefined || isGone(error)) {
      session.note();
      throw work.failed("begin", error);
    }
  }
  let value: T;
  try {
    const sent = work.first === undefined ? undefined : first;
    value = await work.body(pgSession(client), client, sent);
    if (pgSession(client).open() === false) throw ended();
  } catch (error) {
    // A session that cannot even do that must not go back into the pool.
    await client.query("ROLLBACK").catch(session.note);
    throw session.broken() || isTimeout(error) ? work.interrupted(error) : error;
  }
  const done = await client.query("COMMIT").catch((error: unknown) => {
    session.note();
    throw work.failed("commit", error);
  });
  if (done.command === "ROLLBACK") throw rolledBack();
  return value;
}
