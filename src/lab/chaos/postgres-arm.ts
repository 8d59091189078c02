import { join } from "node:path";
import { PLAIN_SCHEMA } from "../servers/postgres-plain.ts";
import type { PostgresOptions } from "../servers/postgres-server.ts";
import { landed } from "../workloads/ledger.ts";
import { Hosts } from "./hosts.ts";
import { eventOf, type Journal } from "./journal.ts";
import { PgBouncerProcess } from "./pgbouncer-process.ts";
import { dial, PostgresProcess, type PostgresSettings } from "./postgres-process.ts";

const CHANNEL = "lab_landed";

/** Who writes a version is told of at the commit, in the order of commits. */
const TELLING = /* sql */ `
CREATE FUNCTION lab_tell() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('${CHANNEL}', NEW.ver || ' ' || NEW.writer); RETURN NULL; END $$;
CREATE TRIGGER lab_tell AFTER INSERT ON lab_versions FOR EACH ROW EXECUTE FUNCTION lab_tell();
INSERT INTO lab_guards VALUES ('R', 0, '')`;

/** The PostgreSQL servers of a run: one whose databases the arms share, and those that an arm may do things to. */
export class PostgresServers {
  /** One that any user may pass through: the servers run as another one. */
  readonly folder: string;
  readonly #all: Promise<PostgresProcess>[] = [];
  #template: Promise<string> | undefined;
  #shared: Promise<PostgresProcess> | undefined;

  constructor(folder: string) {
    this.folder = folder;
  }

  /** Makes the data folder that all of them begin with. @throws BackendConfigError when there is no PostgreSQL here */
  async prepare(): Promise<string> {
    this.#template ??= PostgresProcess.prepare(join(this.folder, "postgres"));
    return await this.#template;
  }

  async shared(): Promise<PostgresProcess> {
    this.#shared ??= this.start({});
    return await this.#shared;
  }

  /** One more. */
  async start(options: {
    readonly settings?: PostgresSettings;
    readonly hosts?: Hosts;
  }): Promise<PostgresProcess> {
    const template = await this.prepare();
    const folder = join(this.folder, `postgres-${this.#all.length + 1}`);
    const { settings = {}, hosts } = options;
    const own = hosts === undefined ? { settings } : { settings, host: hosts.server };
    const server = PostgresProcess.start(template, folder, own);
    this.#all.push(server);
    return await server;
  }

  async close(): Promise<void> {
    for (const server of await Promise.allSettled(this.#all))
      if (server.status === "fulfilled") await server.value.close();
  }
}

/** What an arm asks of its PostgreSQL. */
interface Wanted {
  /** The name of its database. */
  readonly database: string;
  readonly options: PostgresOptions;
  /** Whether some clients are on a host of their own. */
  readonly away: boolean;
}

/** The PostgreSQL of one arm: a database with the tables of hand-written locks, perhaps a pooler, perhaps a host of its own. */
export class PostgresArm {
  readonly server: PostgresProcess;
  readonly database: string;
  /** Where clients connect: to the server, or to the pooler in front of it. */
  readonly port: number;
  /** Where its server and the clients that are away are; `null`: on this host. */
  readonly hosts: Hosts | null;
  /** What of the scenario is played in another way here than it could be. */
  readonly notes: readonly string[];
  readonly #undo: (() => Promise<void>)[];

  private constructor(
    parts: Pick<PostgresArm, "server" | "database" | "port" | "hosts" | "notes">,
    undo: (() => Promise<void>)[],
  ) {
    this.server = parts.server;
    this.database = parts.database;
    this.port = parts.port;
    this.hosts = parts.hosts;
    this.notes = parts.notes;
    this.#undo = undo;
  }

  /** @throws BackendConfigError where there is no PostgreSQL, or no PgBouncer */
  static async open(
    servers: PostgresServers,
    journal: Journal,
    { database, options, away }: Wanted,
  ): Promise<PostgresArm> {
    const undo: (() => Promise<void>)[] = [];
    try {
      const found = away ? await Hosts.open() : null;
      const hosts = found instanceof Hosts ? found : null;
      if (hosts !== null) undo.push(async () => hosts.close());
      const server = await serverFor(servers, options, hosts);
      await fill(server, database, journal, undo);
      if (options.synchronousCommit === "off") await server.stopLogWriter();
      let { port } = server;
      if (options.pooler !== undefined) {
        const own = { folder: join(servers.folder, `pgbouncer-${database}`), size: options.pooler };
        const bouncer = await PgBouncerProcess.start(server, database, own);
        undo.push(async () => bouncer.kill());
        ({ port } = bouncer);
      }
      const notes =
        typeof found === "string"
          ? [`no network namespace here (${found}): a proxy falls silent instead of a wire`]
          : [];
      return new PostgresArm({ server, database, port, hosts, notes }, undo);
    } catch (error) {
      await undoAll(undo);
      throw error;
    }
  }

  /** Where a client on this host connects, by a port that leads here. */
  url(port: number = this.port): string {
    return this.server.url(this.database, port);
  }

  /** Where a client that is away connects. @throws Error when there is no such host */
  get awayUrl(): string {
    if (this.hosts === null) throw new Error("There is no host of its own.");
    return this.server.url(this.database, this.server.ownPort, this.hosts.server.address);
  }

  async close(): Promise<void> {
    await undoAll(this.#undo);
  }
}

async function undoAll(undo: (() => Promise<void>)[]): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

async function serverFor(
  servers: PostgresServers,
  { synchronousCommit }: PostgresOptions,
  hosts: Hosts | null,
): Promise<PostgresProcess> {
  if (hosts !== null) return await servers.start({ hosts });
  if (synchronousCommit !== "off") return await servers.shared();
  return await servers.start({ settings: { synchronous_commit: "off" } });
}

/** Makes the database and its tables, and writes down what lands in it until it is closed. */
async function fill(
  server: PostgresProcess,
  database: string,
  journal: Journal,
  undo: (() => Promise<void>)[],
): Promise<void> {
  const first = await dial(server.url("postgres"));
  await first.script(`CREATE DATABASE ${database}`);
  first.destroy();
  const wire = await dial(server.url(database));
  // Whatever the server is told to do with commits, these are there after a crash.
  await wire.script("SET synchronous_commit = on");
  await wire.script(`${PLAIN_SCHEMA}; ${TELLING}`);
  await wire.listen(CHANNEL, (payload) => {
    const [ver = "", by = ""] = payload.split(/ (.*)/s);
    const { who, facts } = landed(Number(ver), by);
    journal.write(eventOf(who, "event", "write", facts));
  });
  undo.push(async () => {
    // What was committed before is told before the answer to this. A server that has died has told what it could.
    await wire.script("SELECT 1").catch(() => undefined);
    wire.destroy();
  });
}
