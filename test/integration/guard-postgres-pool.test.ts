import { createServer, type Socket } from "node:net";
import { Pool } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
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
