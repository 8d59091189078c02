import { connect } from "node:net";
import type { ClientProcess, Held } from "../clients/client.ts";
import type { Journal } from "./journal.ts";
import type { ResourceRequest, WorkerSetup } from "./messages.ts";

/** Who acts, as far as the resource is told. */
type Acting = Pick<Held, "lock" | "grant" | "token" | "scope">;

/** `Omit` over each member of a union. */
type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
type Request = Without<ResourceRequest, "p" | "op" | "res" | "lock" | "grant" | "token" | "scope">;

/** The resource, and the service that cannot check, as a client process reaches them; each call on its own connection. */
export class RemoteResource {
  readonly #me: ClientProcess;
  readonly #journal: Journal;
  readonly #ports: Pick<WorkerSetup, "resource" | "service">;

  constructor(
    me: ClientProcess,
    journal: Journal,
    ports: Pick<WorkerSetup, "resource" | "service">,
  ) {
    this.#me = me;
    this.#journal = journal;
    this.#ports = ports;
  }

  async claim(who: Acting, res: string): Promise<boolean> {
    return (await this.#call(who, res, { f: "claim" })) === true;
  }

  async read(who: Acting, res: string): Promise<number> {
    return Number(await this.#call(who, res, { f: "read" }));
  }

  async write(who: Acting, res: string, from: number): Promise<number | null> {
    return (await this.#call(who, res, { f: "write", from, path: "job" })) as number | null;
  }

  /** Past every check: reads where `from` is missing, else writes. */
  async byHand(res: string, from: number | null): Promise<number | null> {
    const grant = `by hand of ${this.#me.name}`;
    const who: Acting = { lock: "L", grant, token: undefined, scope: "" };
    if (from === null) return await this.read(who, res);
    return (await this.#call(who, res, { f: "write", from, path: "by hand" })) as number | null;
  }

  async order(who: Acting, business: string, key: string, body: string): Promise<void> {
    await this.#call(who, "Y", { f: "effect", business, key, body });
  }

  async #call(who: Acting, res: string, request: Request): Promise<unknown> {
    const { probe } = this.#journal;
    const { lock, grant, token, scope } = who;
    const op = probe.op();
    const { f } = request;
    const facts = { op, res, lock, grant, token };
    probe.ev(this.#me, "invoke", f, facts);
    const port = f === "effect" ? this.#ports.service : this.#ports.resource;
    const line: ResourceRequest = {
      ...request,
      p: this.#me.name,
      op,
      res,
      lock,
      grant,
      token: token?.toString() ?? null,
      scope,
    };
    const result = await ask(port, line);
    const refused = result === null || result === false;
    probe.ev(this.#me, refused ? "fail" : "ok", f, facts);
    return result;
  }
}

/** One line there, one line back. Waits for ever for what is lost. */
async function ask(port: number, request: ResourceRequest): Promise<unknown> {
  return await new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let text = "";
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("connect", () => socket.write(`${JSON.stringify(request)}\n`));
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (!text.endsWith("\n")) return;
      socket.destroy();
      resolve((JSON.parse(text) as { readonly result: unknown }).result);
    });
  });
}
