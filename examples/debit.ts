/* A debit inside a transaction that the application has anyway: of pg, postgres.js, Kysely, Drizzle or Prisma. */
import { tryRowLock, type UserTransaction, withRowLock } from "../src/drivers/postgres/index.ts";

/** `write` is the application's own UPDATE, in the same transaction. Resolves to what is left, or to why nothing happened. */
export async function debit(
  tx: UserTransaction,
  id: number,
  amount: number,
  write: (balance: number) => Promise<void>,
): Promise<number | "too little"> {
  return await withRowLock(tx, { table: "accounts", where: { id } }, async (account) => {
    const left = Number(account?.["balance"] ?? 0) - amount;
    if (left < 0) return "too little";
    await write(left);
    return left;
  });
}

/** The same where nobody waits: another debit of this account is told at once. */
export async function debitNow(
  tx: UserTransaction,
  id: number,
  amount: number,
  write: (balance: number) => Promise<void>,
): Promise<number | "too little" | "busy"> {
  const account = await tryRowLock(tx, { table: "accounts", where: { id } });
  // The row is ours already, so this does not wait.
  return account === "busy" ? "busy" : await debit(tx, id, amount, write);
}
