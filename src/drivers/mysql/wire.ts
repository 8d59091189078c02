/** Sessions by `mysql2` 3. */
import { CONNECT_TIMEOUT_MS, KEEPALIVE_MS } from "../sql/session.ts";
import type { Dialer, Effect, Result, Settings, Wire } from "./client.ts";

/** What is used of a connection. */
interface Connection {
  readonly threadId: number;
  readonly stream: { destroy(): void };
  query(
    options: object,
    done: (error: Error | null, results: unknown, fields: unknown) => void,
  ): unknown;
  on(event: string, listener: (...args: never[]) => void): unknown;
  destroy(): void;
}

/** What is used of the answer to a statement without rows. */
interface Header {
  readonly affectedRows: number;
  readonly insertId: number | string;
}

/** One column of one row, before it is made into anything. */
interface Field {
  buffer(): Buffer | null;
}

/**
 * What a user's pool may do to its own sessions and must not do to ours: numbers as JavaScript's, times in some zone,
 * parsers of its own. Rows that were matched count as changed.
 */
const SAFE = {
  charset: "utf8mb4_general_ci",
  connectTimeout: CONNECT_TIMEOUT_MS,
  enableKeepAlive: true,
  keepAliveInitialDelay: KEEPALIVE_MS,
  multipleStatements: true,
  supportBigNumbers: true,
  bigNumberStrings: true,
  flags: ["FOUND_ROWS"],
  connectAttributes: { program_name: "ringfence" },
} as const;

/** Every column as the text that the server sent: no number is ever a JavaScript one. */
function asText(field: Field): string | null {
  return field.buffer()?.toString("utf8") ?? null;
}

class MysqlWire implements Wire {
  readonly id: number;
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.id = connection.threadId;
  }

  async script(text: string): Promise<readonly Result[]> {
    return await new Promise((resolve, reject) => {
      this.#connection.query(
        { sql: text, rowsAsArray: true, typeCast: asText },
        (error, results, fields) => {
          if (error === null) resolve(resultsOf(results, fields));
          else reject(error);
        },
      );
    });
  }

  destroy(): void {
    this.#connection.destroy();
    this.#connection.stream.destroy();
  }
}

/** The results of several statements come as a list, and then their fields do too; that of one comes by itself. */
function resultsOf(results: unknown, fields: unknown): readonly Result[] {
  const several = Array.isArray(results) && Array.isArray(fields) && fields.every(isListOrNone);
  return (several ? (results as unknown[]) : [results]).map((result) =>
    Array.isArray(result) ? (result as Exclude<Result, Effect>) : effectOf(result as Header),
  );
}

/** A number is one of JavaScript's where that is exact, and text elsewhere. */
function effectOf({ affectedRows, insertId }: Header): Effect {
  return { rows: affectedRows, left: String(insertId) };
}

function isListOrNone(fields: unknown): boolean {
  return fields === undefined || Array.isArray(fields);
}

/** The dialer of an address. */
export async function dialerOf(address: Settings): Promise<Dialer> {
  const settings = { ...address, ...SAFE };
  const { createConnection } = (await import("mysql2")) as unknown as {
    createConnection: (config: object) => Connection;
  };
  return async (onEnd) =>
    await new Promise<Wire>((resolve, reject) => {
      const made = createConnection(settings);
      let cause: unknown;
      let ended = false;
      const end = (): void => {
        if (ended) return;
        ended = true;
        onEnd(cause);
      };
      made.on("connect", () => {
        resolve(new MysqlWire(made));
      });
      // An `error` event that nobody hears would end the process.
      made.on("error", (error: Error) => {
        cause ??= error;
        made.stream.destroy();
        reject(error);
        end();
      });
      made.on("end", end);
    });
}
