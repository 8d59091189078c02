import { ServerComplaint } from "./postgres-engine.ts";
import type { Asked } from "./postgres-script.ts";
import type { Front, PostgresServer } from "./postgres-server.ts";
import type { Reply, Session } from "./postgres-session.ts";

/** A pooler in transaction mode. */
export interface Pooler {
  front(owner: string, onEnd: (complaint: ServerComplaint | null) => void): Front;
}

interface Waiting {
  readonly client: Client;
  readonly asked: readonly Asked[];
  readonly answer: (reply: Reply) => void;
}

/**
 * A pooler such as PgBouncer in transaction mode: each client has a session for as long as its transaction takes, and
 * the next one is given the same. It answers a connection's start itself, with a pid of its own making. What a client
 * leaves behind in a session stays there.
 */
export function poolerOf(server: PostgresServer, size: number): Pooler {
  const pool = new Pool(server, size);
  let clients = 0;
  return {
    front: (owner, onEnd) => {
      clients += 1;
      // Far from what the server itself gives.
      return new Client(pool, 1_000_000 + clients, owner, onEnd);
    },
  };
}

class Pool {
  readonly #server: PostgresServer;
  readonly #size: number;
  readonly #idle: Session[] = [];
  readonly #waiting: Waiting[] = [];
  #count = 0;

  constructor(server: PostgresServer, size: number) {
    this.#server = server;
    this.#size = size;
  }

  send(waiting: Waiting): void {
    this.#waiting.push(waiting);
    this.#go();
  }

  drop(client: Client): void {
    const left = this.#waiting.filter((each) => each.client !== client);
    this.#waiting.splice(0, Infinity, ...left);
  }

  free(session: Session): void {
    if (session.open) this.#idle.push(session);
    this.#go();
  }

  #go(): void {
    const next = this.#waiting[0];
    if (next === undefined) return;
    const session = this.#take(next.client);
    if (session === null) return;
    this.#waiting.shift();
    next.client.give(session, next.asked, next.answer);
  }

  #take(client: Client): Session | null {
    for (let found = this.#idle.pop(); found !== undefined; found = this.#idle.pop())
      if (found.open) return found;
    if (this.#count >= this.#size) return null;
    this.#count += 1;
    return this.#server.session(client.owner, () => {
      this.#count -= 1;
      this.#go();
    });
  }
}

class Client implements Front {
  readonly pid: number;
  readonly owner: string;
  readonly #pool: Pool;
  readonly #onEnd: (complaint: ServerComplaint | null) => void;
  #session: Session | null = null;
  #open = true;

  constructor(
    pool: Pool,
    pid: number,
    owner: string,
    onEnd: (complaint: ServerComplaint | null) => void,
  ) {
    this.#pool = pool;
    this.pid = pid;
    this.owner = owner;
    this.#onEnd = onEnd;
  }

  send(asked: readonly Asked[], answer: (reply: Reply) => void): void {
    if (this.#session === null) {
      this.#pool.send({ client: this, asked, answer });
      return;
    }
    if (this.#session.open) this.give(this.#session, asked, answer);
    else this.#onEnd(new ServerComplaint("08P01", "server conn crashed?", "FATAL"));
  }

  give(session: Session, asked: readonly Asked[], answer: (reply: Reply) => void): void {
    this.#session = session;
    session.send(asked, (reply) => {
      if (this.#open) answer(reply);
      if (session.inBlock && this.#open) return;
      this.#session = null;
      if (session.inBlock) session.end(null);
      this.#pool.free(session);
    });
  }

  forsake(): void {
    this.#open = false;
    this.#pool.drop(this);
    // A transaction that its client left is nobody's: the pooler closes that session.
    if (this.#session !== null && !this.#session.waits) this.#session.end(null);
  }
}
