/* What this guard needs of each server framework: the least shape that its requests and responses have. */

/** A request of Node's `http`, and of Express, which adds to it. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A response of Node's `http`, and of Express. */
export interface NodeResponse {
  statusCode: number;
  readonly headersSent: boolean;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** A request of Fastify. */
export interface FastifyRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A reply of Fastify. */
export interface FastifyReply {
  code(status: number): unknown;
  headers(values: Record<string, string>): unknown;
  send(body: Uint8Array): unknown;
}

/** A context of Hono. */
export interface HonoContext {
  readonly req: {
    readonly method: string;
    header(name: string): string | undefined;
  };
  res: Response;
  error: Error | undefined;
}
