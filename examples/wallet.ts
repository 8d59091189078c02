/* A wallet: no lock. Balance, ledger and idempotency key change in one transaction, or not at all. */
import type { Pool } from "pg";
import { idempotent } from "../src/guards/idempotency/index.ts";
import { inTransaction } from "./without-a-lock.ts";

/** Besides the table of `createIdempotencyTable`. */
export const SCHEMA = `
CREATE TABLE wallet (id text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
CREATE TABLE ledger (key text PRIMARY KEY, wallet text NOT NULL, cents bigint NOT NULL);
`;

/** One debit; its key comes from the caller and is the same at every retry. */
export interface Debit {
  readonly key: string;
  readonly wallet: string;
  readonly cents: number;
}

/** Takes the money once per key, however often it is called, and says each time what the first call said. */
export async function debit(pool: Pool, request: Debit): Promise<"paid" | "too little"> {
  const { key, wallet, cents } = request;
  return await inTransaction(pool, async (tx) =>
    idempotent(tx, key, request, async () => {
      const taken = await tx.query(
        "UPDATE wallet SET cents = cents - $2 WHERE id = $1 AND cents >= $2",
        [wallet, cents],
      );
      if (taken.rowCount !== 1) return "too little";
      await tx.query("INSERT INTO ledger VALUES ($1, $2, $3)", [key, wallet, -cents]);
      return "paid";
    }),
  );
}
