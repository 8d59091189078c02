import { loadClient } from "../../drivers/sqlite/client.ts";
import type { SqliteConnection } from "../../guards/sqlite/index.ts";

/** The lock, the guarded resource, and the order that they are about. */
export const ORDER = "order-881";

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS handovers (rider TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS record (line TEXT NOT NULL, token TEXT NOT NULL);
  INSERT INTO record SELECT '', '0' WHERE NOT EXISTS (SELECT 1 FROM record);`;

/** The shop's database: what the riders change, with or without a check. */
export class Parcel {
  /** For the guard, which keeps its entries beside the data. */
  readonly db: SqliteConnection & { close(): unknown };

  private constructor(db: SqliteConnection & { close(): unknown }) {
    this.db = db;
  }

  static async open(file: string): Promise<Parcel> {
    const { open } = await loadClient();
    // One object, two views of it: the driver binds names, the guard positions.
    const db = open(file) as unknown as SqliteConnection & { close(): unknown };
    db.exec("PRAGMA busy_timeout = 3000");
    db.exec(`BEGIN IMMEDIATE;${SCHEMA}COMMIT`);
    return new Parcel(db);
  }

  /** How often the parcel was handed over. */
  handovers(): number {
    return this.db.prepare("SELECT rider FROM handovers").all().length;
  }

  handOver(rider: string): void {
    this.db.prepare("INSERT INTO handovers VALUES (?)").run(rider);
  }

  /** The delivery record: a text that each rider reads, adds a line to, and writes back. */
  record(): string {
    const [row] = this.db.prepare("SELECT line FROM record").all() as { readonly line: string }[];
    return row?.line ?? "";
  }

  write(text: string): void {
    this.db.prepare("UPDATE record SET line = ?").run(text);
  }

  /** As many systems do it: a write passes when no larger token has written. Whether it passed. */
  writeIfNotOlder(text: string, token: bigint): boolean {
    const { changes } = this.db
      .prepare(
        "UPDATE record SET line = ?, token = ? WHERE CAST(token AS INTEGER) <= CAST(? AS INTEGER)",
      )
      .run(text, token.toString(), token.toString());
    return Number(changes) === 1;
  }

  /** Runs `fn` in a transaction that no other writer can come into. */
  transaction(fn: () => void): void {
    this.db.exec("BEGIN IMMEDIATE");
    try {
      fn();
      this.db.exec("COMMIT");
    } catch (error) {
      this.db.exec("ROLLBACK");
      throw error;
    }
  }

  close(): void {
    this.db.close();
  }
}
