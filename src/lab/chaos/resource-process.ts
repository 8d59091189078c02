import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Adoption } from "../../core/guard.ts";
import { type Acting, type GuardKind, Items, type Step } from "../servers/items.ts";
import { Service } from "../servers/service.ts";
import { eventOf, type Journal } from "./journal.ts";
import type { ResourceRequest } from "./messages.ts";

/** The resource of a scenario, and the service that cannot check, behind real sockets; writes down what takes effect. */
export class ResourceListener {
  readonly port: number;
  readonly #listener: Server;
  readonly #items: Items;
  readonly #service = new Service();
  readonly #journal: Journal;
  readonly #sockets = new Set<Socket>();

  private constructor(listener: Server, guard: GuardKind, journal: Journal) {
    this.#listener = listener;
    this.port = (listener.address() as AddressInfo).port;
    this.#items = new Items(guard);
    this.#journal = journal;
    listener.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
      createInterface({ input: socket }).on("line", (line) => {
        const result = this.#perform(JSON.parse(line) as ResourceRequest);
        socket.write(`${JSON.stringify({ result })}\n`);
      });
    });
  }

  static async open(guard: GuardKind, journal: Journal): Promise<ResourceListener> {
    const listener = createServer();
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    return new ResourceListener(listener, guard, journal);
  }

  /** Moves an item to another lock's scope, as an operator does at the resource itself. */
  adopt(res: string, adoption: Adoption): void {
    this.#items.adopt(res, adoption);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      this.#listener.close(() => {
        resolve();
      });
    });
  }

  #perform(request: ResourceRequest): unknown {
    const { p, op, res, lock, grant, scope } = request;
    const token = request.token === null ? undefined : BigInt(request.token);
    const facts = { op, res, lock, grant, token };
    const who = { name: p, incarnation: 0 };
    if (request.f === "effect") {
      const { business, key, body } = request;
      const done = this.#service.perform(key, body);
      this.#journal.write(
        eventOf(who, "event", request.f, { ...facts, idem: business, body, ...done }),
      );
      return done.err === undefined;
    }
    if (request.f === "claim" && !this.#items.claims) return true;
    const step = this.#step(request, { grant, token, scope });
    this.#journal.write(eventOf(who, "event", request.f, { ...facts, ...step.facts }));
    return step.result;
  }

  #step(request: ResourceRequest, acting: Acting): Step<boolean | number | null> {
    if ("from" in request)
      return this.#items.write(acting, request.res, request.from, request.path);
    return request.f === "claim"
      ? this.#items.claim(acting, request.res)
      : this.#items.read(request.res);
  }
}
