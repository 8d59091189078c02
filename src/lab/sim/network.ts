import type { Choices, Site } from "./choices.ts";
import type { SimProcess } from "./process.ts";
import type { Scheduler } from "./scheduler.ts";

/** What may become of a message: the delays in milliseconds, and how likely each is, a loss, and a second delivery. */
export interface Weather {
  /** The first is the usual one. */
  readonly delaysMs: readonly number[];
  readonly weights: readonly number[];
  /** Weight of a loss: the message never arrives, nobody is told. */
  readonly lose: number;
  /** Weight of a second delivery, after the last of the delays. */
  readonly repeat: number;
}

const CALM: Weather = { delaysMs: [1], weights: [1], lose: 0, repeat: 0 };

/** One message on its way. */
export interface Message {
  readonly from: SimProcess;
  readonly to: SimProcess;
  /** What it is about: `attempt`, `attempt reply`. */
  readonly label: string;
  readonly deliver: () => void;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function isPending<T>(result: PromiseLike<T> | T): result is PromiseLike<T> {
  return typeof result === "object" && result !== null && "then" in result;
}

/** One direction between two names. Messages do not keep their order: two calls may travel on two connections. */
export class Link {
  readonly name: string;
  /** Nothing arrives, nobody is told: `stall` keeps what is sent until the link heals, `lose` drops it. */
  cut: "no" | "stall" | "lose" = "no";
  /** Keeps the messages for which it is true, until `release`. */
  hold: ((message: Message) => boolean) | null = null;
  /** Loses the messages for which it is true. */
  dropIf: ((message: Message) => boolean) | null = null;
  /** Added to each delay. */
  extraMs = 0;
  readonly #net: Network;
  readonly #site: Site;
  readonly #held: Message[] = [];

  constructor(name: string, net: Network, site: Site) {
    this.name = name;
    this.#net = net;
    this.#site = site;
  }

  send(message: Message): void {
    if (this.hold?.(message) === true || this.cut === "stall") {
      this.#held.push(message);
      return;
    }
    if (this.cut === "lose" || this.dropIf?.(message) === true) return;
    const { weather, fates } = this.#net;
    const fate = fates.length === 1 ? 0 : this.#site.pick(fates);
    const { delaysMs } = weather;
    if (fate === delaysMs.length) return;
    const delay = delaysMs[fate < delaysMs.length ? fate : 0] ?? 0;
    this.#deliver(message, delay);
    if (fate > delaysMs.length) this.#deliver(message, delaysMs.at(-1) ?? 0);
  }

  /** Sends on what was kept, oldest first. */
  release(): void {
    this.hold = null;
    for (const message of this.#held.splice(0))
      this.#deliver(message, this.#net.weather.delaysMs[0] ?? 0);
  }

  heal(): void {
    this.cut = "no";
    this.extraMs = 0;
    this.dropIf = null;
    this.release();
  }

  get kept(): number {
    return this.#held.length;
  }

  #deliver(message: Message, delay: number): void {
    const { scheduler } = this.#net;
    scheduler.after(delay + this.extraMs, () => {
      // What is under way when the line is cut does not arrive either.
      if (this.cut === "stall") this.#held.push(message);
      else if (this.cut === "no") message.to.enter(message.deliver);
    });
  }
}

/** All links, made when first used. */
export class Network {
  readonly scheduler: Scheduler;
  readonly #choices: Choices;
  /** In the order of their first use. */
  readonly #all: Link[] = [];
  readonly #links = new Map<string, Map<string, Link>>();
  #weather: Weather = CALM;
  fates: readonly number[] = [1];

  constructor(scheduler: Scheduler, choices: Choices, weather: Weather = CALM) {
    this.scheduler = scheduler;
    this.#choices = choices;
    this.weather = weather;
  }

  get weather(): Weather {
    return this.#weather;
  }

  set weather(weather: Weather) {
    this.#weather = weather;
    const rare =
      weather.repeat > 0 ? [weather.lose, weather.repeat] : weather.lose > 0 ? [weather.lose] : [];
    this.fates = [...weather.weights, ...rare];
  }

  link(from: string, to: string): Link {
    let links = this.#links.get(from);
    if (links === undefined) this.#links.set(from, (links = new Map<string, Link>()));
    let link = links.get(to);
    if (link === undefined) {
      const name = `${from}>${to}`;
      link = new Link(name, this, this.#choices.site(`link ${name}`));
      links.set(to, link);
      this.#all.push(link);
    }
    return link;
  }

  send(message: Message): void {
    this.link(message.from.name, message.to.name).send(message);
  }

  /** Cuts both directions, or with `oneWay` only the first. */
  cut(a: string, b: string, how: "stall" | "lose", oneWay = false): void {
    this.link(a, b).cut = how;
    if (!oneWay) this.link(b, a).cut = how;
  }

  /** Every link works again, and what they kept goes on its way. */
  heal(): void {
    for (const link of this.#all) link.heal();
  }

  /**
   * A call over the links: `work` runs in the server's process, its outcome travels back. Never settles when a message is
   * lost or either side dies; how long to wait is the caller's business.
   */
  call<T>(
    from: SimProcess,
    to: () => SimProcess,
    label: string,
    work: (server: SimProcess) => PromiseLike<T> | T,
  ): PromiseLike<T> {
    const server = to();
    return new Promise<T>((resolve, reject) => {
      const reply = (deliver: () => void): void => {
        this.send({ from: server, to: from, label: `${label} reply`, deliver });
      };
      const done = (value: T): void => {
        reply(() => {
          resolve(value);
        });
      };
      const failed = (error: unknown): void => {
        reply(() => {
          reject(asError(error));
        });
      };
      const deliver = (): void => {
        try {
          const result = work(server);
          if (isPending(result)) result.then(done, failed);
          else done(result);
        } catch (error) {
          failed(error);
        }
      };
      this.send({ from, to: server, label, deliver });
    });
  }
}
