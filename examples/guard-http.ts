/* A document behind an HTTP server: the server checks the lease of each request, and refuses a holder that came late. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Database from "libsql";
import { memoryDriver } from "../src/drivers/memory/index.ts";
import { fencedFetch, httpGuard, staleFrom } from "../src/guards/http/index.ts";
import { sqliteGuard } from "../src/guards/sqlite/index.ts";
import { createLockManager } from "../src/index.ts";

export async function main(): Promise<{ readonly text: string; readonly late: number }> {
  const keys = [{ kid: "2026-11", secret: "a secret that both sides know" }];

  // The server: the guard stands beside the data, the middleware in front of the handler.
  const db = new Database(":memory:");
  db.exec("CREATE TABLE document (text TEXT)");
  db.exec("INSERT INTO document VALUES ('draft')");
  const fence = httpGuard({ guard: sqliteGuard(), db, keys, locks: { driver: "memory" } });
  const handler = fence.node(
    (request, response, lease) => {
      if (request.method === "PUT") {
        db.exec("BEGIN IMMEDIATE");
        try {
          // In the transaction that writes: only this decides.
          lease?.verify(db);
          db.exec("UPDATE document SET text = text || ', edited'");
          db.exec("COMMIT");
        } catch (error) {
          db.exec("ROLLBACK");
          throw error;
        }
      }
      const { text } = db.prepare("SELECT text FROM document").all()[0] as { text: string };
      response.end(text);
    },
    { lock: () => "documents/7" },
  );
  const server = createServer((request, response) => void handler(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  // The client: every request of the job carries the lease, reads too.
  const locks = createLockManager(memoryDriver(), { sequencerKeys: keys });
  const slow = await locks.acquire("documents/7");
  const { sequencer } = slow;
  await slow.release();
  const text = await locks.request("documents/7", async (lease) => {
    const send = fencedFetch(lease, { origins: [origin] });
    await (await send(origin)).text();
    return (await send(origin, { method: "PUT" })).text();
  });

  // A holder that went on after its lease: refused, and told by whom.
  const refusal = await fencedFetch(sequencer)(origin, { method: "PUT" });
  const stale = await staleFrom(refusal);
  if (stale === null) throw new Error("the late holder was let through");

  await locks.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  db.close();
  return { text, late: refusal.status };
}
