import type { Held, LockClient, LockTerms } from "../clients/client.ts";
import { type Actor, type ResourceServer, UnansweredError } from "../servers/resource.ts";
import type { SimProcess } from "../sim/process.ts";

/** One critical section: what a job does while it holds the lock. */
export interface SectionOptions {
  readonly lock: string;
  readonly res: string;
  readonly terms: LockTerms;
  /** Milliseconds between the read and the write, by the client's clock. */
  readonly workMs: number;
  /** How many read-modify-writes. */
  readonly rounds?: number;
  /** Whether a job stops when its lease says that it is over. */
  readonly heeds?: boolean;
  /** Renews by hand for so long, before the work. */
  readonly renewMs?: number;
}

/** The actor that a lease makes of a process. */
export function actorOf(client: SimProcess, held: Held): Actor {
  const { lock, grant, token, scope } = held;
  return { client, lock, grant, token, scope };
}

/** Acquires, claims, reads, works, writes, releases. Returns what became of it. */
export async function section(
  client: SimProcess,
  locks: LockClient,
  resource: ResourceServer,
  options: SectionOptions,
): Promise<"done" | "busy" | "refused" | "lost"> {
  const held = await locks.acquire(options.lock, options.terms);
  if (held === null) return "busy";
  try {
    return await work(actorOf(client, held), held, resource, options);
  } catch (error) {
    // Nobody knows whether the write landed: the job gives up.
    if (error instanceof UnansweredError) return "lost";
    throw error;
  } finally {
    await held.release();
  }
}

async function work(
  who: Actor,
  held: Held,
  resource: ResourceServer,
  { res, workMs, rounds = 1, heeds = true, renewMs }: SectionOptions,
): Promise<"done" | "refused" | "lost"> {
  if (!held.believes() && heeds) return "lost";
  if (!(await resource.claim(who, res))) return "refused";
  if (renewMs !== undefined) await held.renew?.(renewMs);
  for (let round = 0; round < rounds; round += 1) {
    const from = await resource.read(who, res);
    if (workMs > 0) await who.client.sleep(workMs);
    if (!held.believes() && heeds) return "lost";
    if ((await resource.write(who, res, from)) === null) return "refused";
  }
  return "done";
}
