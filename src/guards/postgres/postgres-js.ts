import type { Answer, Database, Session, Work } from "./client.ts";
import { isTimeout, over } from "./errors.ts";

/** A connection of `postgres` inside a transaction, as far as the guard uses it. */
export interface PostgresJsTransaction {
  unsafe(
    text: string,
    values?: never[],
  ): PromiseLike<
    ArrayLike<unknown> & { readonly count: number; readonly state?: { readonly pid?: number } }
  >;
}

/** The `sql` of `postgres`, as far as the guard uses it. */
export interface PostgresJs extends PostgresJsTransaction {
  begin(options: string, fn: (tx: PostgresJsTransaction) => Promise<unknown>): Promise<unknown>;
  readonly options?: { readonly prepare?: boolean };
}

export function postgresJsSession(sql: PostgresJsTransaction): Session {
  return {
    // In 3.4.9 the next statement of such a transaction ends the process: the client writes to a socket that is gone.
    endsWell: false,
    async query(text, values = []): Promise<Answer> {
      const rows = await sql.unsafe(text, [...values] as never[]);
      const { count, state } = rows;
      return { rows: Array.from(rows) as Answer["rows"], count, toldPid: state?.pid };
    },
    // Only a transaction has savepoints.
    open: () => ("savepoint" in sql ? true : undefined),
  };
}

export function postgresJsDatabase(sql: PostgresJs): Database {
  return {
    preparesCommit: sql.options?.prepare !== false,
    async transaction<T>(work: Work<T>): Promise<T> {
      const life = new Life();
      let value: { readonly is: T } | undefined;
      let failed: { readonly with: unknown } | undefined;
      const body = async (raw: PostgresJsTransaction): Promise<void> => {
        const tx = life.watched<PostgresJsTransaction>(raw);
        const session = postgresJsSession(tx);
        try {
          // The two leave together: the settings cost no round trip.
          const [, result] = await Promise.all([
            session.query(work.settings),
            work.body(session, tx),
          ]);
          value = { is: result };
        } catch (error) {
          failed = { with: error };
          // The client would send a ROLLBACK into a closed socket, which ends the process: it must not hear of this.
          if (life.over) await new Promise<never>(() => undefined);
          throw error;
        }
      };
      try {
        await sql.begin("isolation level read committed read write", body);
      } catch (error) {
        const interrupted = life.over;
        life.end(error);
        if (failed !== undefined)
          throw interrupted || isTimeout(failed.with) ? work.interrupted(failed.with) : failed.with;
        // The session ended while the body waited for something else, which it may still do.
        if (value === undefined && life.begun) throw work.interrupted(over(error));
        throw work.failed(value === undefined ? "begin" : "commit", error);
      }
      return (value as { readonly is: T }).is;
    },
  };
}

/**
 * Whether a transaction's session still is what it was. When the server ends a session while the body waits for
 * something else, the client connects anew, and a later statement of the body would be sent to a closed socket or run,
 * outside any transaction, on the new connection. So everything that the body sends is asked here first.
 */
class Life {
  #over: unknown;
  begun = false;

  get over(): boolean {
    return this.#over !== undefined;
  }

  end(cause: unknown): void {
    this.#over ??= cause;
  }

  check(): void {
    if (this.over) throw over(this.#over);
  }

  watched<T extends object>(raw: T): T {
    this.begun = true;
    return new Proxy(raw, {
      apply: (target, self, args: unknown[]) => {
        this.check();
        return this.watch(Reflect.apply(target as (...all: unknown[]) => unknown, self, args));
      },
      get: (target, name) => {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== "function") return found;
        return (...args: unknown[]): unknown => {
          this.check();
          const passed = name === "savepoint" ? args.map((arg) => this.#nested(arg)) : args;
          return this.watch(Reflect.apply(found as (...all: unknown[]) => unknown, target, passed));
        };
      },
    });
  }

  #nested(arg: unknown): unknown {
    if (typeof arg !== "function") return arg;
    return (inner: object): unknown => (arg as (tx: unknown) => unknown)(this.watched(inner));
  }

  /** Learns of a query's end before its caller does, and without starting it: queries of this client are lazy. */
  watch(query: unknown): unknown {
    if (query instanceof Promise)
      void Promise.prototype.then.call(query, undefined, (error: unknown) => {
        if (isClosed(error)) this.end(error);
      });
    return query;
  }
}

/** The client's own codes for a connection that is no more. */
function isClosed(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return (
    typeof code === "string" && /^(CONNECTION_|ECONN|EPIPE|ETIMEDOUT|57P0[1-5]$|25P03$)/.test(code)
  );
}
