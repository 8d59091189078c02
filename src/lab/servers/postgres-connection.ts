import type { Dialer, Wire } from "../../drivers/postgres/client.ts";
import type { Call } from "../../drivers/sql/statement.ts";
import type { SimProcess } from "../sim/process.ts";
import { Line } from "../sim/stream.ts";
import type { World } from "../sim/world.ts";
import type { ServerComplaint } from "./postgres-engine.ts";
import { type Asked, askedOf, nameOf } from "./postgres-script.ts";
import type { Front, PostgresServer } from "./postgres-server.ts";
import type { Reply } from "./postgres-session.ts";

/** Sessions of one client process with whatever server there is. */
export function simDialer(world: World, client: SimProcess, server: () => PostgresServer): Dialer {
  return {
    dial: async (onEnd) =>
      new Promise<Wire>((resolve, reject) => {
        const connection = new Connected(world, client, server(), onEnd);
        connection.open(resolve, reject);
      }),
  };
}

/** What the client library gives for a connection that is no more. */
function reset(): Error {
  return new Error("Connection terminated unexpectedly");
}

/** One connection: two lines, a front at the server, and at most one question under way. */
class Connected implements Wire {
  pid = 0;
  readonly #world: World;
  readonly #client: SimProcess;
  readonly #server: PostgresServer;
  readonly #home: SimProcess;
  readonly #there: Line;
  readonly #back: Line;
  readonly #onEnd: (cause: unknown) => void;
  #front: Front | null = null;
  #tell: ((payload: string) => void) | null = null;
  #fail: ((error: Error) => void) | null = null;
  #over = false;
  #serverOver = false;
  #forget: readonly (() => void)[] = [];

  constructor(
    world: World,
    client: SimProcess,
    server: PostgresServer,
    onEnd: (cause: unknown) => void,
  ) {
    this.#world = world;
    this.#client = client;
    this.#server = server;
    this.#home = server.process;
    this.#onEnd = onEnd;
    const { net } = world;
    this.#there = new Line(
      net,
      client,
      () => world.process(server.name),
      () => {
        client.enter(() => {
          this.#ended(reset());
        });
      },
    );
    this.#back = new Line(
      net,
      this.#home,
      () => client,
      () => {
        this.#gone();
      },
    );
  }

  /** Asks for a session. */
  open(made: (wire: Wire) => void, failed: (error: Error) => void): void {
    this.#forget = [
      this.#client.atDeath(() => {
        this.#there.send("close", () => {
          this.#gone();
        });
      }),
      this.#home.atDeath(() => {
        this.#serverOver = true;
        this.#back.send("close", () => {
          this.#ended(reset());
        });
      }),
    ];
    this.#fail = failed;
    this.#there.send("connect", () => {
      if (this.#refused()) return;
      const owner = this.#client.name;
      this.#front = this.#server.front(owner, (complaint) => {
        this.#closed(complaint);
      });
      const { pid } = this.#front;
      this.#back.send("connect reply", () => {
        this.#fail = null;
        this.pid = pid;
        made(this);
      });
    });
  }

  async run(call: Call): Promise<readonly string[]> {
    const name = nameOf(call.statement.text);
    return await this.#ask(name, [{ name, args: call.args }]);
  }

  async script(text: string): Promise<readonly string[]> {
    const asked = askedOf(text);
    return await this.#ask(asked.map(({ name }) => name).join(" "), asked);
  }

  async listen(channel: string, onMessage: (payload: string) => void): Promise<void> {
    await this.#request("listen", (answer) => {
      this.#tell = (payload) => {
        this.#back.send("notification", () => {
          if (!this.#over) onMessage(payload);
        });
      };
      this.#server.listen(channel, this.#tell);
      answer({ rows: [] });
    });
  }

  destroy(): void {
    if (this.#over) return;
    this.#over = true;
    // What was sent is on its way, and is done before the server hears of this.
    this.#there.send("close", () => {
      this.#gone();
    });
  }

  async #ask(label: string, asked: readonly Asked[]): Promise<readonly string[]> {
    return await this.#request(label, (answer) => {
      this.#front?.send(asked, answer);
    });
  }

  async #request(
    label: string,
    work: (answer: (reply: Reply) => void) => void,
  ): Promise<readonly string[]> {
    return await new Promise((resolve, reject) => {
      if (this.#over) {
        reject(reset());
        return;
      }
      this.#fail = reject;
      const answer = (reply: Reply): void => {
        this.#back.send(`${label} reply`, () => {
          if (this.#over) return;
          this.#fail = null;
          if ("rows" in reply) resolve(reply.rows);
          else reject(reply.error);
        });
      };
      this.#there.send(label, () => {
        if (!this.#refused()) work(answer);
      });
    });
  }

  /** Whether the server that this connection was made with is no more: the host says so. */
  #refused(): boolean {
    if (this.#home.alive && !this.#serverOver) return false;
    const to = this.#client;
    const from = this.#world.process(this.#server.name);
    const deliver = (): void => {
      this.#ended(reset());
    };
    this.#world.net.send({ from, to, label: "reset", deliver });
    return true;
  }

  /** The server has ended the session. */
  #closed(complaint: ServerComplaint | null): void {
    if (this.#serverOver) return;
    this.#serverOver = true;
    this.#back.send("close", () => {
      this.#ended(complaint ?? reset());
    });
  }

  /** The server knows that the client is gone. */
  #gone(): void {
    if (this.#tell !== null) this.#server.unlisten(this.#tell);
    if (this.#home.alive) this.#front?.forsake();
    this.#serverOver = true;
    this.#back.kill();
  }

  /** The client knows that the session is over. */
  #ended(cause: Error): void {
    for (const forget of this.#forget) forget();
    this.#there.kill();
    if (this.#over) return;
    this.#over = true;
    this.#fail?.(cause);
    this.#fail = null;
    this.#onEnd(cause);
  }
}

/** Which call of the lock service a message of a session is part of; its own words where it is none. */
export function callOf(label: string): string {
  const [, said = "", reply = ""] = /^(.*?)( reply)?$/.exec(label) ?? [];
  const call = CALLS.find(([pattern]) => pattern.test(said))?.[1] ?? said;
  return `${call}${reply}`;
}

const CALLS: readonly (readonly [RegExp, string])[] = [
  [/^(grantIdle|refresh)$|\blook$/, "attempt"],
  [/^releaseSoles?$/, "release"],
  [/^(renew\w+|whyGone)$/, "renew"],
  [/^notification$/, "wake"],
];
