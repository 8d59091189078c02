import type { Adoption } from "../../core/guard.ts";
import { decideAdoption } from "../../core/guard-decision.ts";
import type { Session } from "./client.ts";
import type { Statements } from "./sql.ts";
import { entryIn, floorOf, own } from "./steps.ts";

/** Moves one entry to another scope, in one transaction. */
export async function adoptOne(
  session: Session,
  sql: Statements,
  resource: string,
  adoption: Adoption,
): Promise<void> {
  // A row to lock, whoever else comes at the same time: a placeholder of the scope that is left, which nobody can present.
  await own("adopt", session.query(sql.insert, [resource, "0", "", adoption.from]));
  const locked = entryIn(await own("adopt", session.query(sql.lock, [resource])));
  const fresh = locked?.grantId === "" && locked.token === 0n && locked.scope === adoption.from;
  const entry = fresh ? null : locked;
  const floor = await floorOf(session, sql, adoption.to);
  const move = decideAdoption(resource, { entry, floor }, adoption);
  if (move === null) return;
  if (move.leftFloor > 0n)
    await own("adopt", session.query(sql.raise, [adoption.from, move.leftFloor.toString()]));
  const { token, grantId, scope } = move.entry;
  await own("adopt", session.query(sql.install, [resource, token.toString(), grantId, scope]));
}
