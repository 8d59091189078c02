/* What needs no lock at all, in PostgreSQL: each is one statement, or one short transaction, that cannot come out wrong. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";

/** The tables of these recipes. */
export const SCHEMA = `
CREATE TABLE document (id text PRIMARY KEY, body text NOT NULL, version int NOT NULL);
CREATE TABLE stock (item text PRIMARY KEY, pieces int NOT NULL);
CREATE TABLE mail (report text PRIMARY KEY);
CREATE TABLE job (id serial PRIMARY KEY, work text NOT NULL, result text);
CREATE TABLE writer (stream text PRIMARY KEY, epoch bigint NOT NULL);
CREATE TABLE entry (stream text, epoch bigint, text text);
`;

/**
 * Compare and set: changes a document from what it was read as, again a few times when somebody was first. For work that
 * may be done again; where many change one row, they mostly wait for nothing.
 */
export async function change(
  pool: Pool,
  id: string,
  edit: (body: string) => string | Promise<string>,
  tries = 20,
): Promise<string> {
  for (let attempt = 0; attempt < tries; attempt += 1) {
    const { rows } = await pool.query<{ body: string; version: number }>(
      "SELECT body, version FROM document WHERE id = $1",
      [id],
    );
    const [seen] = rows;
    if (seen === undefined) throw new Error(`there is no document ${id}`);
    const body = await edit(seen.body);
    const done = await pool.query(
      "UPDATE document SET body = $1, version = version + 1 WHERE id = $2 AND version = $3",
      [body, id, seen.version],
    );
    if (done.rowCount === 1) return body;
    // Not all at once again.
    await sleep(Math.random() * Math.min(100, 2 ** attempt));
  }
  throw new Error(`document ${id} kept changing`);
}

/** One conditional statement: takes pieces if there are so many. There is no moment between the look and the change. */
export async function take(pool: Pool, item: string, pieces: number): Promise<boolean> {
  const done = await pool.query(
    "UPDATE stock SET pieces = pieces - $2 WHERE item = $1 AND pieces >= $2",
    [item, pieces],
  );
  return done.rowCount === 1;
}

/** A unique constraint: of all who want to send the report, one is told to. */
export async function isFirst(pool: Pool, report: string): Promise<boolean> {
  const done = await pool.query("INSERT INTO mail VALUES ($1) ON CONFLICT DO NOTHING", [report]);
  return done.rowCount === 1;
}

/**
 * A queue: takes the oldest job that nobody works on, and stores its result in the same transaction. A worker that dies
 * loses its row lock with its connection, and the next one gets the job. `false`: there is nothing to do now.
 */
export async function workOnce(
  pool: Pool,
  work: (job: string) => Promise<string>,
): Promise<boolean> {
  return await inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ id: number; work: string }>(
      "SELECT id, work FROM job WHERE result IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
    );
    const [job] = rows;
    if (job === undefined) return false;
    await tx.query("UPDATE job SET result = $1 WHERE id = $2", [await work(job.work), job.id]);
    return true;
  });
}

/** One writer per stream: whoever opens it last is the writer, and earlier ones find out at their next write. */
export async function openStream(
  pool: Pool,
  stream: string,
): Promise<(text: string) => Promise<void>> {
  const { rows } = await pool.query<{ epoch: string }>(
    "INSERT INTO writer VALUES ($1, 1) ON CONFLICT (stream) DO UPDATE SET epoch = writer.epoch + 1 RETURNING epoch",
    [stream],
  );
  const epoch = rows[0]?.epoch;
  return async (text) => {
    await inTransaction(pool, async (tx) => {
      // An UPDATE, though it changes nothing: its row lock keeps the next writer out until this entry is committed.
      const mine = await tx.query(
        "UPDATE writer SET epoch = epoch WHERE stream = $1 AND epoch = $2",
        [stream, epoch],
      );
      if (mine.rowCount !== 1) throw new Error(`somebody else writes ${stream} now`);
      await tx.query("INSERT INTO entry VALUES ($1, $2, $3)", [stream, epoch, text]);
    });
  };
}

/** One transaction; a connection on which something failed is thrown away. */
export async function inTransaction<T>(
  pool: Pool,
  body: (tx: PoolClient) => Promise<T>,
): Promise<T> {
  const tx = await pool.connect();
  let broken = true;
  const note = (): void => undefined;
  tx.on("error", note);
  try {
    await tx.query("BEGIN");
    const result = await body(tx);
    await tx.query("COMMIT");
    broken = false;
    return result;
  } finally {
    tx.off("error", note);
    tx.release(broken);
  }
}
