import type { Adoption } from "../../core/guard.ts";
import { LATE, within } from "../clients/within.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import { type Acting, type GuardKind, Items, type Step } from "./items.ts";

/** Who acts, and under which grant. */
export interface Actor extends Acting {
  readonly client: SimProcess;
  readonly lock: string;
}

/** No answer came in time: the step may or may not have been taken. */
export class UnansweredError extends Error {
  constructor(what: string) {
    super(`${what}: no answer`);
  }
}

/** The protected side, in a process of its own: `Items`, read and written over the links. */
export class ResourceServer {
  readonly #world: World;
  readonly name: string;
  readonly process: SimProcess;
  /** How long a client waits for an answer. */
  timeoutMs = 5000;
  readonly #items: Items;

  constructor(world: World, name: string, guard: GuardKind) {
    this.#world = world;
    this.name = name;
    this.process = world.start(name);
    this.#items = new Items(guard);
  }

  /** Installs the grant's pair; always true where the guard is another one. */
  async claim(who: Actor, res: string): Promise<boolean> {
    if (!this.#items.claims) return true;
    return await this.#call(who, "claim", res, () => this.#items.claim(who, res));
  }

  async read(who: Actor, res: string): Promise<number> {
    return await this.#call(who, "read", res, () => this.#items.read(res));
  }

  /** Writes a new version; `null` when it was refused. See `Items.write`. */
  async write(who: Actor, res: string, from: number, path = "job"): Promise<number | null> {
    return await this.#call(who, "write", res, () => this.#items.write(who, res, from, path));
  }

  /** Moves an item to another lock's scope, as an operator does at the resource itself. */
  adopt(res: string, adoption: Adoption): void {
    this.#items.adopt(res, adoption);
  }

  /** The version that stands, for the end of a scenario. */
  version(res: string): number {
    return this.#items.version(res);
  }

  async #call<T>(
    who: Actor,
    f: "claim" | "read" | "write",
    res: string,
    step: () => Step<T>,
  ): Promise<T> {
    const { probe, net } = this.#world;
    const { client, lock, grant, token } = who;
    const facts = { op: probe.op(), res, lock, grant, token };
    probe.ev(client, "invoke", f, facts);
    const calling = net.call(
      client,
      () => this.process,
      f,
      () => {
        const done = step();
        probe.ev(client, "event", f, { ...facts, ...done.facts });
        return done.result;
      },
    );
    const result = await within(client, this.timeoutMs, calling);
    if (result === LATE) {
      probe.ev(client, "info", f, facts);
      throw new UnansweredError(f);
    }
    probe.ev(client, result === null || result === false ? "fail" : "ok", f, facts);
    return result;
  }
}
