import type { World } from "../sim/world.ts";
import type { Actor } from "./resource.ts";

/** What a service remembers of a key. */
interface Answer {
  readonly body: string;
  readonly response: number;
}

/** A key that came with another body: the service does nothing, and says so. */
const CONFLICT = "the key was used with another body";

/**
 * A service that knows nothing of locks and tokens, as a payment API: it does what it is asked to, once per
 * idempotency key, and answers a key that it knows from memory. Without a key every request is an effect.
 */
export class Service {
  readonly #answers = new Map<string, Answer>();
  #effects = 0;

  /** What is answered; `accepted`: it took effect now. */
  perform(
    key: string,
    body: string,
  ): { readonly accepted: boolean; readonly ver?: number; readonly err?: string } {
    const known = key === "" ? undefined : this.#answers.get(key);
    if (known === undefined) {
      this.#effects += 1;
      if (key !== "") this.#answers.set(key, { body, response: this.#effects });
      return { accepted: true, ver: this.#effects };
    }
    if (known.body !== body) return { accepted: false, err: CONFLICT };
    return { accepted: false, ver: known.response };
  }
}

/** A service in the simulated world. */
export class ServiceServer {
  readonly #world: World;
  readonly #service = new Service();
  readonly name: string;

  constructor(world: World, name: string) {
    this.#world = world;
    this.name = name;
    world.start(name);
  }

  /** `business`: what the effect is, whatever key it is asked for with. */
  async order(who: Actor, business: string, key: string, body: string): Promise<void> {
    const { probe, net } = this.#world;
    const { client, lock, grant, token } = who;
    const facts = { op: probe.op(), res: this.name, idem: business, body, lock, grant, token };
    probe.ev(client, "invoke", "effect", facts);
    const answer = await net.call(
      client,
      () => this.#world.process(this.name),
      "effect",
      () => {
        const done = this.#service.perform(key, body);
        probe.ev(client, "event", "effect", { ...facts, ...done });
        return done;
      },
    );
    probe.ev(client, answer.err === undefined ? "ok" : "fail", "effect", { ...facts, ...answer });
  }
}
