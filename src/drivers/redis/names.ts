import { decodeName } from "../../core/lock-name.ts";
import { LinkError } from "./errors.ts";
import type { KeySpace } from "./keys.ts";
import { IN_USE } from "./scripts.ts";
import type { Servers } from "./servers.ts";

/** Names that are looked at together. */
const AT_ONCE = 100;

/**
 * Names that are held or waited for, in the order of their encoded bytes. It walks all keys of the database with SCAN,
 * which stops nobody, and asks of each name only as far as the page goes: idle names stay for days for their counter.
 */
export async function listNames(
  servers: Servers,
  keys: KeySpace,
  page: { readonly prefix: string; readonly limit: number; readonly cursor?: string },
  dueAt: number,
): Promise<{ readonly names: readonly string[]; readonly cursor?: string }> {
  const candidates = await scan(servers, keys, page, dueAt);
  const names: string[] = [];
  for (let at = 0; at < candidates.length; at += AT_ONCE) {
    const some = candidates.slice(at, at + AT_ONCE);
    const calls = some.map((encoded) => ({
      statement: IN_USE,
      keys: keys.of(decodeName(encoded)),
      args: [],
    }));
    const outcomes = await servers.runAll(calls, "other", dueAt);
    for (const [i, outcome] of outcomes.entries()) {
      if (!outcome.ok) throw outcome.error;
      const encoded = some[i];
      if (outcome.value !== 1 || encoded === undefined) continue;
      if (names.length === page.limit)
        return { names: names.map(decodeName), ...cursorAfter(names) };
      names.push(encoded);
    }
  }
  return { names: names.map(decodeName) };
}

function cursorAfter(names: readonly string[]): { readonly cursor?: string } {
  const last = names.at(-1);
  return last === undefined ? {} : { cursor: last };
}

async function scan(
  servers: Servers,
  keys: KeySpace,
  page: { readonly prefix: string; readonly cursor?: string },
  dueAt: number,
): Promise<readonly string[]> {
  const found = new Set<string>();
  for (const server of await servers.primaries(dueAt)) {
    const connection = await server.connection(dueAt);
    for (const name of await scanServer(async (args) => connection.send(args, dueAt), keys, page))
      found.add(name);
  }
  return [...found].sort();
}

/** The encoded names of one server that have a lock key, after the cursor. */
export async function scanServer(
  send: (args: readonly string[]) => Promise<unknown>,
  keys: KeySpace,
  page: { readonly prefix: string; readonly cursor?: string },
): Promise<ReadonlySet<string>> {
  const pattern = keys.pattern(page.prefix);
  const found = new Set<string>();
  let at = "0";
  do {
    const reply: unknown = await send(["SCAN", at, "MATCH", pattern, "COUNT", "1000"]);
    if (!Array.isArray(reply)) throw new LinkError("SCAN gave no list", { sent: true });
    const [next, names] = reply as [string, readonly string[]];
    at = next;
    for (const key of names) {
      const encoded = keys.encodedNameIn(key);
      if (encoded !== undefined && (page.cursor === undefined || encoded > page.cursor))
        found.add(encoded);
    }
  } while (at !== "0");
  return found;
}
