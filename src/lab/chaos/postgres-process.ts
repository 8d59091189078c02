import { appendFileSync, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { postgresClient } from "../../connect/postgres.ts";
import { dialerOf, type Wire } from "../../drivers/postgres/client.ts";
import { rawFraming } from "./framing.ts";
import type { Host } from "./hosts.ts";
import { Proxy } from "./proxy.ts";
import {
  freePort,
  giveTo,
  missing,
  mortal,
  type Program,
  run,
  ServerProcess,
  type ServerUser,
  serverUser,
} from "./server-process.ts";

const ADVICE = "apt-get install postgresql-15 pgbouncer";
const DEBIAN = "/usr/lib/postgresql";

/** Settings of a server's command line: `{ synchronous_commit: "off" }`. */
export type PostgresSettings = Readonly<Record<string, string | number>>;

const SETTINGS: PostgresSettings = {
  // Processes crash here, not hosts: what was written is with the kernel.
  fsync: "off",
  shared_buffers: "16MB",
  max_connections: 100,
  log_min_messages: "fatal",
  // Nothing but a commit that asks for it reaches the disk within a scenario.
  autovacuum: "off",
  bgwriter_lru_maxpages: 0,
  wal_writer_delay: "10s",
};

/** The folder of the server's programs: Debian's newest version, else the PATH. */
function programs(): string {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN) : [];
  const [newest] = versions
    .filter((version) => existsSync(join(DEBIAN, version, "bin/initdb")))
    .sort((a, b) => Number(b) - Number(a));
  return newest === undefined ? "" : join(DEBIAN, newest, "bin/");
}

/** A session with a database, for the lab's own statements. */
export async function dial(url: string, onEnd: () => void = () => undefined): Promise<Wire> {
  const dialer = await dialerOf(await postgresClient(url))();
  return await dialer.dial(onEnd);
}

/** A real PostgreSQL with user `postgres` and no password, on a free port of the loopback interface, in a folder of its own. */
export class PostgresProcess {
  /** Where it is reached from here. */
  readonly port: number;
  /** The port of its own, on the host that it is on. */
  readonly ownPort: number;
  readonly #data: string;
  readonly #process: ServerProcess;
  readonly #relay: Proxy | undefined;

  private constructor(
    ports: { readonly port: number; readonly ownPort: number },
    data: string,
    server: ServerProcess,
    relay: Proxy | undefined,
  ) {
    this.port = ports.port;
    this.ownPort = ports.ownPort;
    this.#data = data;
    this.#process = server;
    this.#relay = relay;
  }

  /**
   * Starts a copy of `template` in `folder`; with a host of its own it is reached there by others' networks, and from here
   * by a socket in its folder.
   * @throws BackendConfigError when there is no PostgreSQL here
   */
  static async start(
    template: string,
    folder: string,
    { settings = {}, host }: { readonly settings?: PostgresSettings; readonly host?: Host } = {},
  ): Promise<PostgresProcess> {
    const user = await serverUser("postgres", ADVICE);
    const data = join(folder, "data");
    mkdirSync(folder, { recursive: true });
    await run("cp", ["-a", "--reflink=auto", template, data]);
    const port = await freePort();
    const there = {
      listen_addresses: host?.address ?? "127.0.0.1",
      unix_socket_directories: host === undefined ? "" : folder,
    };
    if (host !== undefined)
      appendFileSync(join(data, "pg_hba.conf"), "host all all samenet trust\n");
    await giveTo(folder, user);
    const all = Object.entries({ ...SETTINGS, ...settings, ...there, port });
    const args = ["-D", data, ...all.flatMap(([key, value]) => ["-c", `${key}=${value}`])];
    const program = { name: `${programs()}postgres`, args };
    const server = programOn(host, program, user);
    const socket = join(folder, `.s.PGSQL.${port}`);
    const relay = host === undefined ? undefined : await Proxy.to(socket, rawFraming);
    const process = new PostgresProcess(
      { port: relay?.port ?? port, ownPort: port },
      data,
      server,
      relay,
    );
    try {
      await process.start();
    } catch (error) {
      await process.close();
      throw error;
    }
    return process;
  }

  /** A data folder that others are copies of. @throws BackendConfigError when there is no PostgreSQL here */
  static async prepare(folder: string): Promise<string> {
    const user = await serverUser("postgres", ADVICE);
    mkdirSync(folder, { recursive: true });
    await giveTo(folder, user);
    const template = join(folder, "data");
    const flags = ["-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--wal-segsize=1"];
    const args = ["-D", template, "-U", "postgres", ...flags];
    try {
      await run(`${programs()}initdb`, args, user);
    } catch (cause) {
      throw missing("No PostgreSQL can be made here", ADVICE, cause);
    }
    return template;
  }

  url(database: string, port: number = this.port, address = "127.0.0.1"): string {
    return `postgres://postgres@${address}:${port}/${database}`;
  }

  /** Starts it with the data that it had. */
  async start(): Promise<void> {
    // All its processes are gone, but the pid in the file may be another process's by now.
    rmSync(join(this.#data, "postmaster.pid"), { force: true });
    await this.#process.start(async () => answers(this.url("postgres")));
  }

  /** From now on nothing is written to its log but by commits that wait for it. */
  async stopLogWriter(): Promise<void> {
    await this.#process.stopPart(/walwriter/);
  }

  /** All its processes at once, as in a crash of its host: what was not written is lost. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  async close(): Promise<void> {
    await this.kill();
    await this.#relay?.close();
  }
}

function programOn(host: Host | undefined, program: Program, user: ServerUser): ServerProcess {
  return host === undefined
    ? new ServerProcess(program, user, ADVICE)
    : // Behind what drops root: the kernel forgets the wish of a process whose user changes.
      new ServerProcess(host.within(mortal(program), user), {}, ADVICE);
}

/** Whether a server, or a pooler in its name, answers. */
export async function answers(url: string): Promise<boolean> {
  try {
    const wire = await dial(url);
    try {
      await wire.script("SELECT 1");
    } finally {
      wire.destroy();
    }
    return true;
  } catch (error) {
    // No client library: that is not going to change.
    if (error instanceof Error && error.name === "BackendConfigError") throw error;
    return false;
  }
}
