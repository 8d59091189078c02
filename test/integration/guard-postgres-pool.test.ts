import { createServer, type Socket } from "node:net";
import { Pool } from "pg";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { holder } from "../support/holders.ts";

/** A message of the server: its kind, its length and its body. */
function message(kind: string, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  const head = Buffer.alloc(5, kind);
  head.writeInt32BE(bytes.length + 4, 1);
  return Buffer.concat([head, bytes]);
}

it("a session that ends in the packet that begins it is an error of the claim, not of the process", async () => {
  const fields = "SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0";
  const begins = [message("R", Buffer.alloc(4)), message("Z", "I"), message("E", fields)];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(Buffer.concat(begins)));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const pool = new Pool({ host: "127.0.0.1", port: address.port, user: "u", database: "d" });
  pool.on("error", () => undefined);
  onTestFinished(async () => {
    await pool.end();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await expect(postgresGuard().claim(pool, "account/x", holder(1n))).rejects.toMatchObject({
    code: "ERR_BACKEND_UNAVAILABLE",
  });
});

describePostgres("the message that begins a transaction of the guard, with the claim in it", () => {
  let server: PostgresServer;
  const guard = postgresGuard();

  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server.stop();
  });

  it.each(["on", "off"])(
    "claims resources of any name, with standard_conforming_strings %s",
    async (setting) => {
      const pool = server.pool({ options: `-c standard_conforming_strings=${setting}` });
      onTestFinished(async () => pool.end());
      const names = [
        "it's",
        "\\' OR true --",
        "$1; DROP TABLE ringfence_guard; --",
        "a''b\\\\",
        "\u00fc/\u{1f512}",
        "%|.:_-",
        "x".repeat(512),
      ];
      for (const name of names) {
        // The second finds an entry, and so is decided by the statement in the first message.
        for (const token of [5n, 6n]) await guard.claim(pool, name, holder(token));
        await expect(guard.claim(pool, name, holder(5n))).rejects.toMatchObject({
          code: "ERR_STALE_TOKEN",
          resource: name,
        });
      }
      await guard.run(pool, names, holder(7n), async () => undefined);
      const { rows } = await pool.query<{ resource: string }>(
        "DELETE FROM ringfence_guard RETURNING resource, token",
      );
      expect(rows.map(({ resource }) => resource).sort()).toEqual([...names].sort());
      expect(rows).toEqual(rows.map(({ resource }) => ({ resource, token: "7" })));
    },
  );

  it("waits for the row no longer than it may, and leaves the pool as it was", async () => {
    const pool = server.pool({ max: 1 });
    onTestFinished(async () => pool.end());
    await guard.claim(pool, "r", holder(1n));
    const other = server.pool({ max: 1 });
    onTestFinished(async () => other.end());
    const tx = await other.connect();
    await tx.query("BEGIN; SELECT FROM ringfence_guard WHERE resource = 'r' FOR UPDATE");
    const impatient = postgresGuard({ patience: "400ms" });
    await expect(impatient.claim(pool, "r", holder(2n))).rejects.toMatchObject({
      code: "ERR_BACKEND_TIMEOUT",
      operation: "claim",
      outcome: "not-applied",
    });
    await tx.query("ROLLBACK");
    tx.release();
    await guard.run(pool, "r", holder(2n), async (client) => {
      const { rows } = await client.query<{ token: string }>(
        "SELECT token FROM ringfence_guard WHERE resource = 'r'",
      );
      expect(rows).toEqual([{ token: "2" }]);
    });
  });
});
