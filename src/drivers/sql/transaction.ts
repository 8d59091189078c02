import { LinkError } from "./link-error.ts";
import type { Session } from "./session.ts";

/** A session that can end the transaction it is in. */
interface Transactional extends Session {
  rollback(dueAt: number): Promise<unknown>;
}

/** Leaves no transaction open, whatever `body` came to. */
export async function transaction<T>(
  session: Transactional,
  dueAt: number,
  body: () => Promise<T>,
): Promise<T> {
  try {
    return await body();
  } catch (error) {
    if (session.open)
      await session.rollback(dueAt).catch(() => {
        session.end(new LinkError("a transaction could not be ended", { sent: true }));
      });
    throw error;
  }
}

/** Before the message that commits, nothing is applied, even if the session is lost. */
export async function unapplied<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof LinkError && error.sent)
      throw new LinkError(error.message, { sent: false, late: error.late, cause: error });
    throw error;
  }
}
