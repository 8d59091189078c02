import { InvalidArgumentError } from "../../core/errors.ts";
import type { Resources } from "../../core/guard.ts";
import type { SequencerPayload } from "../../core/sequencer.ts";
import {
  type Checked,
  Checker,
  checkRequirement,
  type Fence,
  type HttpGuardOptions,
  type Requirement,
} from "./checker.ts";
import { SEQUENCER_HEADER } from "./header.ts";
import { headersOf, type Problem, problemOf } from "./problem.ts";
import type {
  FastifyReply,
  FastifyRequest,
  HonoContext,
  NodeRequest,
  NodeResponse,
} from "./servers.ts";

/** What a route says about its requests; `R` is the framework's own request. */
export interface Route<R> {
  /** The lock that such a request must be made under: a sequencer of another is answered with 409. */
  readonly lock?: (request: R) => string;
  /** What it claims, on the first request of a grant; by default the one resource named after the lock. */
  readonly resource?: (request: R, sequencer: SequencerPayload) => Resources;
  /** In place of the guard's own `require`. */
  readonly require?: Requirement;
}

/**
 * Checks requests that are made under a lease, in front of handlers that write to the inner guard's store.
 *
 * Each of `node`, `express`, `fastify` and `hono` reads the header, claims on the first request of a grant, and answers
 * what is refused with a problem document: 409 stale or another lock's, 400 malformed, 428 missing, 503 when the store
 * did not answer. The handler gets its `Fence` from `of` and calls `verify(tx)` in its transaction; when that refuses,
 * the answer is the same 409.
 */
export interface HttpGuard<Tx, V> {
  /**
   * The fence of a request, by the object that the framework gave: Node's and Express's request, Fastify's request,
   * Hono's context. `null` where it came without a lease, which only a route that does not require one lets through.
   * @throws InvalidArgumentError for a request that this guard has not checked
   */
  of(request: object): Fence<Tx, V> | null;
  /** Wraps a listener of Node's `http`. Rejects with what the handler throws, other than a guard's refusal. */
  node<R extends NodeRequest, S extends NodeResponse>(
    handler: (request: R, response: S, fence: Fence<Tx, V> | null) => unknown,
    route?: Route<R>,
  ): (request: R, response: S) => Promise<void>;
  /** Middleware for Express: before the handler of a route, or with `app.use`. */
  express<R extends NodeRequest>(
    route?: Route<R>,
  ): (request: R, response: NodeResponse, next: (error?: unknown) => void) => Promise<void>;
  /** Error middleware for Express, after the routes: answers refusals of `verify`, passes on everything else. */
  expressErrors(): (
    error: unknown,
    request: unknown,
    response: NodeResponse,
    next: (error?: unknown) => void,
  ) => void;
  /** A `preHandler` hook for Fastify, of a route or of an instance. */
  fastify<R extends FastifyRequest>(
    route?: Route<R>,
  ): (request: R, reply: FastifyReply) => Promise<unknown>;
  /** An error handler for Fastify: answers refusals of `verify`, and throws everything else to the one outside. */
  fastifyErrors(): (error: unknown, request: unknown, reply: FastifyReply) => unknown;
  /** Middleware for Hono. Answers refusals of `verify` too. */
  hono<C extends HonoContext>(
    route?: Route<C>,
  ): (context: C, next: () => Promise<void>) => Promise<Response | undefined>;
}

/**
 * Makes an HTTP guard over the guard of a store.
 *
 * @example
 * const fence = httpGuard({ guard: sqliteGuard(), db, keys });
 * app.put("/documents/:id", fence.express({ lock: (req) => `documents/${req.params.id}` }), handler);
 * app.use(fence.expressErrors());
 * @throws InvalidArgumentError for impossible options
 */
export function httpGuard<Db, Tx, V extends void | Promise<void>>(
  options: HttpGuardOptions<Db, Tx, V>,
): HttpGuard<Tx, V> {
  return new Adapters(new Checker(options));
}

class Adapters<Db, Tx, V> implements HttpGuard<Tx, V> {
  readonly #checker: Checker<Db, Tx, V>;
  readonly #fences = new WeakMap<object, Fence<Tx, V> | null>();

  constructor(checker: Checker<Db, Tx, V>) {
    this.#checker = checker;
  }

  of(request: object): Fence<Tx, V> | null {
    const fence = this.#fences.get(request);
    if (fence === undefined)
      throw new InvalidArgumentError(
        "Expected a request that this guard has checked: put its middleware before the handler, and pass the framework's own request (Hono: the context).",
      );
    return fence;
  }

  node<R extends NodeRequest, S extends NodeResponse>(
    handler: (request: R, response: S, fence: Fence<Tx, V> | null) => unknown,
    route: Route<R> = {},
  ): (request: R, response: S) => Promise<void> {
    checkRoute(route);
    return async (request, response) => {
      const checked = await this.#check(request, request.method ?? "GET", headerOf(request), route);
      if (!checked.passed) {
        answer(response, checked.problem);
        return;
      }
      try {
        await handler(request, response, checked.fence);
      } catch (error) {
        const problem = problemOf(error);
        // What has begun to be sent cannot become a refusal any more.
        if (problem === null || response.headersSent) throw error;
        answer(response, problem);
      }
    };
  }

  express<R extends NodeRequest>(
    route: Route<R> = {},
  ): (request: R, response: NodeResponse, next: (error?: unknown) => void) => Promise<void> {
    checkRoute(route);
    return async (request, response, next) => {
      let checked: Checked<Tx, V>;
      try {
        checked = await this.#check(request, request.method ?? "GET", headerOf(request), route);
      } catch (error) {
        // Express 4 does not look at the promise.
        next(error);
        return;
      }
      if (checked.passed) next();
      else answer(response, checked.problem);
    };
  }

  expressErrors(): ReturnType<HttpGuard<Tx, V>["expressErrors"]> {
    // Express knows error middleware by its four parameters.
    return (error, _request, response, next) => {
      const problem = problemOf(error);
      if (problem === null || response.headersSent) next(error);
      else answer(response, problem);
    };
  }

  fastify<R extends FastifyRequest>(
    route: Route<R> = {},
  ): (request: R, reply: FastifyReply) => Promise<unknown> {
    checkRoute(route);
    return async (request, reply) => {
      const checked = await this.#check(request, request.method, headerOf(request), route);
      return checked.passed ? undefined : replied(reply, checked.problem);
    };
  }

  fastifyErrors(): ReturnType<HttpGuard<Tx, V>["fastifyErrors"]> {
    return (error, _request, reply) => {
      const problem = problemOf(error);
      if (problem === null) throw error;
      return replied(reply, problem);
    };
  }

  hono<C extends HonoContext>(
    route: Route<C> = {},
  ): (context: C, next: () => Promise<void>) => Promise<Response | undefined> {
    checkRoute(route);
    return async (context, next) => {
      const { req } = context;
      const checked = await this.#check(context, req.method, req.header(SEQUENCER_HEADER), route);
      if (!checked.passed) return responseOf(checked.problem);
      await next();
      // Hono has answered a throwing handler by now; a refusal is not a fault of the server.
      const problem = problemOf(context.error);
      if (problem !== null) {
        // Else it would merge the headers of the answer that it replaces.
        context.res = undefined as unknown as Response;
        context.res = responseOf(problem);
      }
      return undefined;
    };
  }

  async #check<R extends object>(
    request: R,
    method: string,
    header: string | readonly string[] | undefined,
    { lock, resource, require }: Route<R>,
  ): Promise<Checked<Tx, V>> {
    const checked = await this.#checker.check({
      method,
      header,
      lock: lock && (() => lock(request)),
      resource: resource && ((sequencer) => resource(request, sequencer)),
      require,
    });
    if (checked.passed) this.#fences.set(request, checked.fence);
    return checked;
  }
}

const KEY = SEQUENCER_HEADER.toLowerCase();

function headerOf(request: NodeRequest): string | readonly string[] | undefined {
  return request.headers[KEY];
}

function checkRoute(route: Route<never>): void {
  checkRequirement(route.require);
  for (const part of [route.lock, route.resource] as readonly unknown[])
    if (part !== undefined && typeof part !== "function")
      throw new InvalidArgumentError("Expected a route's `lock` and `resource` to be functions.");
}

function answer(response: NodeResponse, problem: Problem): void {
  response.statusCode = problem.status;
  for (const [name, value] of Object.entries(headersOf(problem))) response.setHeader(name, value);
  response.end(JSON.stringify(problem));
}

function replied(reply: FastifyReply, problem: Problem): FastifyReply {
  reply.code(problem.status);
  reply.headers({ ...headersOf(problem) });
  // Bytes: to a text it would add a charset, which JSON does not have.
  reply.send(Buffer.from(JSON.stringify(problem)));
  return reply;
}

function responseOf(problem: Problem): Response {
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: headersOf(problem),
  });
}
