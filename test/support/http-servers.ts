/* One little document server, once on each HTTP framework: PUT, GET and POST /documents/:id over SQLite. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { type Context, Hono } from "hono";
import type { Fence, HttpGuard, Requirement } from "../../src/guards/http/index.ts";
import type { Connection } from "./guard-fixtures.ts";

const require = createRequire(import.meta.url);

/** The guard of these servers. */
type Guarded = HttpGuard<Connection, void>;

/** A server that listens. */
export interface Listening {
  readonly url: string;
  close(): Promise<void>;
}

/** One framework. */
export interface Framework {
  readonly name: string;
  readonly start: (
    guard: Guarded,
    documents: Documents,
    require?: Requirement,
  ) => Promise<Listening>;
}

/** What the handlers do, whatever calls them. */
export class Documents {
  readonly #db: Connection;

  constructor(db: Connection) {
    this.#db = db;
    db.exec("CREATE TABLE IF NOT EXISTS document (id TEXT PRIMARY KEY, text TEXT)");
  }

  read(id: string): string {
    const row = this.#db.prepare("SELECT text FROM document WHERE id = ?").all(id)[0];
    return (row as { readonly text: string } | undefined)?.text ?? "";
  }

  /** Verifies and writes in one transaction. */
  write(id: string, text: string, fence: Fence<Connection, void> | null): void {
    if (text === "boom") throw new Error("the handler's own problem");
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      // In this order on purpose: a refusal must take the write back.
      this.#db.prepare("INSERT OR REPLACE INTO document VALUES (?, ?)").run(id, text);
      fence?.verify(this.#db);
      this.#db.exec("COMMIT");
    } catch (error) {
      this.#db.exec("ROLLBACK");
      throw error;
    }
  }
}

const lockOf = (id: string | undefined): string => `documents/${id ?? ""}`;
const idOf = (request: IncomingMessage): string => request.url?.split("/")[2] ?? "";

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}

async function listen(server: Server): Promise<Listening> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const node: Framework = {
  name: "node:http",
  async start(guard, documents, need) {
    const handler = guard.node(
      async (request: IncomingMessage, response: ServerResponse, fence) => {
        if (request.method === "GET") response.end(documents.read(idOf(request)));
        else {
          documents.write(idOf(request), await bodyOf(request), fence);
          response.statusCode = 204;
          response.end();
        }
      },
      { lock: (request) => lockOf(idOf(request)), ...(need && { require: need }) },
    );
    return listen(
      createServer((request, response) => {
        // What the handler throws is the server's own to answer.
        handler(request, response).catch(() => {
          response.statusCode = 500;
          response.end("failed");
        });
      }),
    );
  },
};

const onExpress: Framework = {
  name: "Express",
  async start(guard, documents, need) {
    const app = express();
    app.set("env", "test");
    app.use(express.text());
    const checked = guard.express<express.Request<{ id: string }>>({
      lock: (request) => lockOf(request.params.id),
      ...(need && { require: need }),
    });
    app.get("/documents/:id", checked, (request, response) => {
      response.send(documents.read(request.params.id));
    });
    app.put("/documents/:id", checked, async (request, response) => {
      documents.write(request.params.id, request.body as string, guard.of(request));
      response.sendStatus(204);
    });
    app.use(guard.expressErrors());
    return listen(createServer(app));
  },
};

const onFastify: Framework = {
  name: "Fastify",
  async start(guard, documents, need) {
    const app = fastify({ forceCloseConnections: true });
    const preHandler = guard.fastify<{
      readonly method: string;
      readonly headers: Record<string, string | string[] | undefined>;
      readonly params: unknown;
    }>({
      lock: ({ params }) => lockOf((params as { readonly id: string }).id),
      ...(need && { require: need }),
    });
    app.setErrorHandler(guard.fastifyErrors());
    app.get<{ Params: { id: string } }>("/documents/:id", { preHandler }, async (request) =>
      documents.read(request.params.id),
    );
    app.put<{ Params: { id: string }; Body: string }>(
      "/documents/:id",
      { preHandler },
      async (request, reply) => {
        documents.write(request.params.id, request.body, guard.of(request));
        return reply.code(204).send();
      },
    );
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return { url, close: async () => app.close() };
  },
};

/** Hono's server for Node. Its declarations need the DOM's, which these tests do without. */
type Serve = (
  options: { fetch: Hono["fetch"]; port: number; hostname: string },
  onListen: (info: { readonly port: number }) => void,
) => Server;

const onHono: Framework = {
  name: "Hono",
  async start(guard, documents, need) {
    const app = new Hono();
    app.onError((_error, context) => context.text("failed", 500, { "x-from": "onError" }));
    app.use(
      "/documents/:id",
      guard.hono({
        lock: (context: Context) => lockOf(context.req.param("id")),
        ...(need && { require: need }),
      }),
    );
    app.get("/documents/:id", (context) => context.text(documents.read(context.req.param("id"))));
    app.put("/documents/:id", async (context) => {
      documents.write(context.req.param("id"), await context.req.text(), guard.of(context));
      return context.body(null, 204);
    });
    const { serve } = require("@hono/node-server") as { serve: Serve };
    return new Promise((resolve) => {
      const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => {
        resolve({
          url: `http://127.0.0.1:${port}`,
          close: async () => {
            server.closeAllConnections();
            await new Promise((done) => server.close(done));
          },
        });
      });
    });
  },
};

/** The frameworks that the HTTP guard has adapters for. */
export const FRAMEWORKS: readonly Framework[] = [node, onExpress, onFastify, onHono];
