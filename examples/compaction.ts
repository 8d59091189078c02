/*
 * A compaction job: many small segments become one, for minutes, under a lease that may end meanwhile. It claims the
 * manifest before it reads it, and the transaction that swaps the manifest verifies that nobody claimed since.
 */
import type { Pool } from "pg";
import { postgresGuard } from "../src/guards/postgres/index.ts";
import type { FencedLease } from "../src/index.ts";
import { inTransaction } from "./without-a-lock.ts";

export const SCHEMA = `
CREATE TABLE segment (id serial PRIMARY KEY, numbers int[] NOT NULL);
CREATE TABLE manifest (generation int PRIMARY KEY, segments int[] NOT NULL);
`;

const guard = postgresGuard();
const RESOURCE = "manifest";

/** Compacts once. @throws StaleTokenError when another job has begun since; then nothing of this one is visible */
export async function compact(
  pool: Pool,
  lease: FencedLease,
  merge: (parts: number[][]) => Promise<number[]>,
): Promise<number> {
  await guard.claim(pool, RESOURCE, lease);
  const { rows } = await pool.query<{ generation: number; segments: number[] }>(
    "SELECT generation, segments FROM manifest ORDER BY generation DESC LIMIT 1",
  );
  const { generation, segments } = rows[0] ?? { generation: 0, segments: [] };
  const parts = await pool.query<{ numbers: number[] }>(
    "SELECT numbers FROM segment WHERE id = ANY($1) ORDER BY id",
    [segments],
  );
  const merged = await merge(parts.rows.map(({ numbers }) => numbers));
  // Nobody sees a segment that no manifest names: a job that ends here leaves only something to sweep.
  const written = await pool.query<{ id: number }>(
    "INSERT INTO segment (numbers) VALUES ($1) RETURNING id",
    [merged],
  );
  await inTransaction(pool, async (tx) => {
    await guard.verify(tx, RESOURCE, lease);
    await tx.query("INSERT INTO manifest VALUES ($1, $2)", [generation + 1, [written.rows[0]?.id]]);
  });
  return generation + 1;
}
