import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { answers, type PostgresProcess } from "./postgres-process.ts";
import { freePort, giveTo, ServerProcess, serverUser } from "./server-process.ts";

const ADVICE = "apt-get install pgbouncer";
const DEBIAN = "/usr/sbin/pgbouncer";

/** A real PgBouncer in transaction mode in front of one database of a server. */
export class PgBouncerProcess {
  readonly port: number;
  readonly #process: ServerProcess;

  private constructor(port: number, bouncer: ServerProcess) {
    this.port = port;
    this.#process = bouncer;
  }

  /** `size`: how many sessions of the server it shares out. @throws BackendConfigError when there is no PgBouncer here */
  static async start(
    server: PostgresProcess,
    database: string,
    { folder, size }: { readonly folder: string; readonly size: number },
  ): Promise<PgBouncerProcess> {
    const user = await serverUser("postgres", ADVICE);
    const port = await freePort();
    const file = join(folder, "pgbouncer.ini");
    const lines = [
      "[databases]",
      `${database} = host=127.0.0.1 port=${server.port} user=postgres`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      `default_pool_size = ${size}`,
    ];
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, `${lines.join("\n")}\n`);
    await giveTo(folder, user);
    const name = existsSync(DEBIAN) ? DEBIAN : "pgbouncer";
    const bouncer = new PgBouncerProcess(
      port,
      new ServerProcess({ name, args: [file] }, user, ADVICE),
    );
    await bouncer.#process.start(async () => answers(server.url(database, port)));
    return bouncer;
  }

  async kill(): Promise<void> {
    await this.#process.kill();
  }
}
