import { RingfenceError } from "../../core/errors.ts";
import type { Wire } from "../../drivers/postgres/client.ts";
import type { Statement } from "../../drivers/sql/statement.ts";
import { type PostgresGuard, postgresGuard } from "../../guards/postgres/index.ts";
import type { Held } from "../clients/client.ts";
import { CoreHeld } from "../clients/core-client.ts";
import { simDialer } from "../servers/postgres-connection.ts";
import { PLAIN } from "../servers/postgres-plain.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import type { Facts } from "../sim/probe.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";

/** How somebody updates a row that a lock protects. */
export interface Update {
  /** Without our guard: whether the guard's row is locked, or only looked at, and whether a newer token is refused. */
  readonly row: "locked" | "looked at";
  readonly refuses: boolean;
  /** The transaction has an older snapshot: REPEATABLE READ, with a read before anything else. */
  readonly old?: boolean;
  /** For how long the process stands still between its read and its write, in milliseconds. */
  readonly pauseMs?: number;
}

const RES = "R";
const COMMIT = "COMMIT";
const ROLLBACK = "ROLLBACK";

/** What a transaction of a client of `pg` offers. */
interface Client {
  query(text: string, values?: readonly unknown[]): Promise<Result>;
}

interface Result {
  readonly rows: Record<string, unknown>[];
  readonly rowCount: number;
  readonly command: string;
}

/**
 * Data in a modelled PostgreSQL, with a guard's row beside it: each write adds a version, so that no two writes meet by
 * themselves. Who holds a lease of Ringfence uses the production guard; others do it by hand.
 */
export class Ledger {
  readonly #world: World;
  readonly #server: PostgresServer;
  readonly #guard: PostgresGuard = postgresGuard();
  readonly #pause: (name: string, ms: number) => void;
  readonly #writes = new Map<number, { readonly by: SimProcess; readonly facts: Facts }>();
  #versions = 0;

  /** `byHand`: there is a row that everybody locks. Our guard makes its own. */
  constructor(world: World, byHand: boolean, pause: (name: string, ms: number) => void) {
    this.#world = world;
    this.#pause = pause;
    this.#server = new PostgresServer(world, "D");
    const row = { key: RES, token: 0n, grant_id: "", scope: "" };
    if (byHand) this.#server.engine.versions.add([{ table: "guards", id: RES, row }], false);
    this.#server.engine.onCommit = (changes) => {
      for (const { table, row } of changes)
        if (table === "versions" && row !== undefined && "ver" in row) this.#landed(row.ver);
    };
  }

  /** One update under a lease: whether it was committed. */
  async update(client: SimProcess, held: Held, how: Update): Promise<boolean> {
    const { probe } = this.#world;
    const facts = { op: probe.op(), res: RES, ...factsOf(held) };
    probe.ev(client, "invoke", "write", facts);
    const ours = held instanceof CoreHeld;
    const done = ours
      ? await this.#guarded(client, held, how)
      : await this.#byHand(client, held, how);
    probe.ev(client, done ? "ok" : "fail", "write", facts);
    return done;
  }

  /** By the production guard. */
  async #guarded(client: SimProcess, held: CoreHeld, how: Update): Promise<boolean> {
    const pool = new SimPool(async () => this.#dial(client));
    try {
      await this.#guard.run(pool as never, RES, held.lease as never, async (tx: Client) => {
        await this.#write(client, held, how, async ({ text }, ...args) => {
          const { rows } = await tx.query(text, args);
          return rows.map(({ value }) => String(value));
        });
      });
      return true;
    } catch (error) {
      if (error instanceof RingfenceError) return false;
      throw error;
    }
  }

  async #byHand(client: SimProcess, held: Held, how: Update): Promise<boolean> {
    const wire = await this.#dial(client);
    const run = async (statement: Statement, ...args: string[]): Promise<readonly string[]> =>
      wire.run({ statement, args }, false);
    const token = held.token ?? 0n;
    const claim = async (): Promise<void> => {
      await run(PLAIN.setGuard, RES, String(token), held.grant);
    };
    try {
      // By itself, or in the transaction that it is for.
      if (how.refuses && how.old !== true) await claim();
      await run(how.old === true ? PLAIN.oldBegin : PLAIN.plainBegin);
      if (how.old === true) await run(PLAIN.readVersion, RES);
      const [seen] = await run(how.row === "locked" ? PLAIN.lockGuard : PLAIN.readGuard, RES);
      if (how.refuses && token < BigInt(seen?.split("|")[0] ?? 0)) return false;
      if (how.refuses && how.old === true) await claim();
      await this.#write(client, held, how, run);
      await wire.script(COMMIT);
      return true;
    } finally {
      wire.destroy();
    }
  }

  /** Reads, stands still, and writes what is based on that. */
  async #write(
    client: SimProcess,
    held: Held,
    { pauseMs }: Update,
    run: (statement: Statement, ...args: string[]) => Promise<readonly string[]>,
  ): Promise<void> {
    const [from = "0"] = await run(PLAIN.readVersion, RES);
    const facts = { res: RES, ...factsOf(held) };
    this.#world.probe.ev(client, "event", "read", { ...facts, ver: Number(from) });
    if (pauseMs !== undefined) {
      this.#pause(client.name, pauseMs);
      await client.sleep(0);
    }
    this.#versions += 1;
    const ver = this.#versions;
    const written = { ...facts, from: Number(from), ver, accepted: true, path: "job" };
    this.#writes.set(ver, { by: client, facts: written });
    await run(PLAIN.addVersion, RES, String(ver));
  }

  #landed(ver: number): void {
    const write = this.#writes.get(ver);
    if (write !== undefined) this.#world.probe.ev(write.by, "event", "write", write.facts);
  }

  async #dial(client: SimProcess): Promise<Wire> {
    return await simDialer(this.#world, client, () => this.#server).dial(() => undefined);
  }
}

function factsOf({ lock, grant, token }: Held): Pick<Facts, "lock" | "grant" | "token"> {
  return { lock, grant, token };
}

/** What the guard takes for a `Pool` of `pg`: every transaction has a session of its own. */
class SimPool {
  readonly totalCount = 0;
  readonly #dial: () => Promise<Wire>;

  constructor(dial: () => Promise<Wire>) {
    this.#dial = dial;
  }

  async connect(): Promise<Client & Record<"on" | "off" | "release", () => void>> {
    const wire = await this.#dial();
    return {
      query: async (text, values = []) => {
        const word = text.startsWith("BEGIN") || text === COMMIT || text === ROLLBACK;
        const args = values.map(String);
        const texts = word
          ? await wire.script(text)
          : await wire.run({ statement: { name: "guard", text }, args }, false);
        const rows = texts.map(rowOf);
        return { rows, rowCount: rows.length, command: text };
      },
      on: () => undefined,
      off: () => undefined,
      release: () => {
        wire.destroy();
      },
    };
  }
}

function rowOf(text: string): Record<string, unknown> {
  return text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : { value: text };
}
