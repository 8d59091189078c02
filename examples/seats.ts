/* Seats: one conditional UPDATE assigns one. Asking again is harmless, so a reply that was lost is simply asked again. */
import type { Pool } from "pg";

export const SCHEMA = "CREATE TABLE seat (id int PRIMARY KEY, buyer text)";

/** Whether the seat is the buyer's now, whether by this call or by an earlier one whose answer did not arrive. */
export async function assignSeat(pool: Pool, seat: number, buyer: string): Promise<boolean> {
  const done = await pool.query(
    "UPDATE seat SET buyer = $2 WHERE id = $1 AND (buyer IS NULL OR buyer = $2)",
    [seat, buyer],
  );
  return done.rowCount === 1;
}
