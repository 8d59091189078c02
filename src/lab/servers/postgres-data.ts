import type { Wire } from "../../drivers/postgres/client.ts";
import type { PgPool } from "../../guards/postgres/index.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import { type LedgerPlace, landed } from "../workloads/ledger.ts";
import { simDialer } from "./postgres-connection.ts";
import { PostgresServer } from "./postgres-server.ts";

const ENDS = ["COMMIT", "ROLLBACK"];

/** A modelled PostgreSQL with the data that a lock protects; what is committed there is written into the history. */
export class PostgresData implements LedgerPlace<SimProcess> {
  readonly #world: World;
  readonly #server: PostgresServer;

  /** `byHand`: there is a row that everybody locks. Our guard makes its own. */
  constructor(world: World, byHand: boolean) {
    this.#world = world;
    this.#server = new PostgresServer(world, "D");
    const row = { key: "R", token: 0n, grant_id: "", scope: "" };
    if (byHand) this.#server.engine.versions.add([{ table: "guards", id: "R", row }], false);
    this.#server.engine.onCommit = (changes) => {
      for (const { table, row: written } of changes)
        if (table === "versions" && written !== undefined && "writer" in written)
          this.#landed(written.ver, written.writer);
    };
  }

  async dial(client: SimProcess): Promise<Wire> {
    return await simDialer(this.#world, client, () => this.#server).dial(() => undefined);
  }

  async pool(client: SimProcess): Promise<PgPool> {
    return await Promise.resolve(new SimPool(async () => this.dial(client)));
  }

  async stop(client: SimProcess, ms: number): Promise<void> {
    this.#world.pause(client.name);
    this.#world.scheduler.after(ms, () => {
      this.#world.resume(client.name);
    });
    await client.sleep(0);
  }

  #landed(ver: number, by: string): void {
    const { who, facts } = landed(ver, by);
    this.#world.probe.ev(this.#world.process(who.name), "event", "write", facts);
  }
}

interface Result {
  readonly rows: unknown[];
  readonly rowCount: number;
  readonly command: string;
}

/** What a transaction of a client of `pg` offers. */
interface Client {
  query(text: string, values?: readonly unknown[]): Promise<Result>;
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
        const word = text.startsWith("BEGIN") || ENDS.includes(text);
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
