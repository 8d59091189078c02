import { decodeName } from "../../core/lock-name.ts";
import { asRedisError } from "../redis/errors.ts";
import { scanServer } from "../redis/names.ts";
import type { Cause } from "./errors.ts";
import { tooFew } from "./errors.ts";
import type { Panel } from "./panel.ts";
import { inspectReply } from "./replies.ts";
import { INSPECT } from "./scripts.ts";
import { recordOf } from "./tally.ts";

/** Names that are looked at together. */
const AT_ONCE = 100;

/**
 * Names that a quorum of servers says are held, in the order of their encoded bytes. It walks all keys of every server
 * with SCAN, which stops nobody.
 */
export async function listNames(
  panel: Panel,
  quorum: number,
  page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
  dueAt: number,
): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
  const candidates = await scanAll(panel, quorum, page, dueAt);
  const names: string[] = [];
  for (let at = 0; at < candidates.length; at += AT_ONCE) {
    const some = candidates.slice(at, at + AT_ONCE);
    const held = await heldAmong(panel, quorum, some, dueAt);
    for (const encoded of some) {
      if (!held.has(encoded)) continue;
      if (names.length === page.limit) {
        const last = names.at(-1);
        return { names: names.map(decodeName), ...(last === undefined ? {} : { cursor: last }) };
      }
      names.push(encoded);
    }
  }
  return { names: names.map(decodeName) };
}

async function scanAll(
  panel: Panel,
  quorum: number,
  page: { readonly prefix: string; readonly cursor?: string },
  dueAt: number,
): Promise<readonly string[]> {
  const causes: Cause[] = [];
  const found = new Set<string>();
  await Promise.all(
    panel.seats.map(async ({ server, keys }) => {
      try {
        const send = async (args: readonly string[]): Promise<unknown> => server.send(args, dueAt);
        for (const name of await scanServer(send, keys, page)) found.add(name);
      } catch (error) {
        causes.push({ label: server.label, error: asRedisError(error) });
      }
    }),
  );
  const got = panel.size - causes.length;
  if (got < quorum)
    throw tooFew({ got, needed: quorum, servers: panel.size }, causes, "not-applied");
  return [...found].sort();
}

async function heldAmong(
  panel: Panel,
  quorum: number,
  encoded: readonly string[],
  dueAt: number,
): Promise<ReadonlySet<string>> {
  const words = await Promise.all(
    panel.seats.map(async (_, server) =>
      panel.askWithin(
        server,
        encoded.map((name) => ({
          statement: INSPECT,
          keys: [panel.keysOf(server, decodeName(name)).lock],
          args: [],
        })),
        dueAt,
      ),
    ),
  );
  return new Set(
    encoded.filter((name, i) => {
      const seen = words.flatMap((word) => {
        const outcome = word[i];
        return outcome?.ok === true ? [inspectReply(outcome.value)] : [];
      });
      return recordOf(name, seen, quorum, 0, true).holders.length > 0;
    }),
  );
}
