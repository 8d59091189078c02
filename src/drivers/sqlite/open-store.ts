/** From a path, or a connection that the user made, to a database that steps can run on. */
import { type DriverContext, DriverError } from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";
import { type NamedSql, type OpenDatabase, SqliteClient, type SqliteDatabase } from "./client.ts";
import type { Sharing } from "./file.ts";
import { adopt, identityOf, isLonely } from "./identity.ts";
import type { Settings } from "./options.ts";
import { ensureSchema } from "./schema.ts";
import { refuseBesideSoleUser, takeSoleUse } from "./sole-user.ts";
import { statements } from "./sql.ts";
import { Store } from "./step.ts";
import type { System } from "./system.ts";
import type { Statements } from "./tables.ts";

/** How long a step waits for another writer: it blocks the event loop meanwhile, and core asks again anyway. */
const BUSY_TIMEOUT_MS = 10;
/** The same while opening, when a new file's first users wait for each other. */
const OPENING_TIMEOUT_MS = 250;
/** What the write-ahead log is cut back to after a checkpoint. */
const WAL_LIMIT_BYTES = 4 * 1024 * 1024;

/** What a driver works on. */
export type Source =
  | {
      readonly kind: "path";
      readonly path: string;
      readonly open: OpenDatabase;
      readonly system: System;
    }
  | {
      readonly kind: "db";
      readonly db: SqliteDatabase;
      /** To be had only where this process cannot read its boot id. */
      readonly open: OpenDatabase | undefined;
      readonly system: System;
    };

/** An open database, and what closes it. */
export interface Opened {
  readonly store: Store;
  /** The file's path; `null` for a database in memory. */
  readonly path: string | null;
  /** Whether the path still leads to the open file. @throws what the file system says */
  readonly inPlace: () => boolean;
  readonly fileSystem: { readonly name: string; readonly sharing: Sharing };
  close(): void;
}

/** Opens once. @throws DriverError, or what the client throws */
export function openStore(
  source: Source,
  settings: Settings,
  context: DriverContext,
  replaced: boolean,
): Opened {
  if (source.kind === "db") return openHanded(source, settings, context, replaced);
  const { path, open, system } = source;
  for (let tries = 0; ; tries += 1) {
    system.prepareFile(path, settings.autoCreate, encodeName(context.host.id));
    const fileSystem = system.localFileSystem(path);
    const file = system.fileIdentity(path);
    const client = new SqliteClient(openFile(path, open), true);
    let giveBack: (() => void) | undefined;
    try {
      configure(client, settings);
      const parts = { client, settings, context, path, open, sharing: fileSystem.sharing };
      const { sql, release } = takePossession(parts);
      giveBack = release;
      // On overlayfs the first write copies a file of a lower layer, which changes its inode: look again.
      if (system.fileIdentity(path) === file || tries === 3) {
        client.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
        const store = makeStore(client, sql, context, replaced);
        const close = (): void => {
          client.close();
          release?.();
        };
        return { store, path, inPlace: system.leadsTo(path, file), fileSystem, close };
      }
    } catch (error) {
      client.close();
      giveBack?.();
      throw error;
    }
    client.close();
    giveBack?.();
  }
}

/** The user's connection keeps its settings, but for one that `durability: "full"` needs, and is never closed. */
function openHanded(
  source: Source & { readonly kind: "db" },
  settings: Settings,
  context: DriverContext,
  replaced: boolean,
): Opened {
  const { db, open, system } = source;
  const client = new SqliteClient(db, false);
  const path = databasePath(client);
  const fileSystem =
    path === null ? { name: "memory", sharing: "local" as const } : system.localFileSystem(path);
  if (settings.durability === "full") raiseDurability(client);
  const { sharing } = fileSystem;
  const { sql, release } = takePossession({ client, settings, context, path, open, sharing });
  return {
    store: makeStore(client, sql, context, replaced),
    path,
    inPlace: path === null ? () => true : system.leadsTo(path, system.fileIdentity(path)),
    fileSystem,
    close: () => {
      client.close();
      release?.();
    },
  };
}

function makeStore(
  client: SqliteClient,
  sql: Statements,
  context: DriverContext,
  replaced: boolean,
): Store {
  const { clock, host, namespace } = context;
  const identity = identityOf(host);
  const name = encodeName(host.id);
  return new Store({ client, sql, identity, clock, host: name, namespace, replaced });
}

function openFile(path: string, open: OpenDatabase): SqliteDatabase {
  try {
    return open(path);
  } catch (error) {
    // libsql tells no code here, only a sentence.
    throw new DriverError(
      "config",
      "not-applied",
      `The lock file ${path} cannot be opened: check that it is a file, and that its folder can be written`,
      { cause: error },
    );
  }
}

function configure(client: SqliteClient, settings: Settings): void {
  client.exec(`PRAGMA busy_timeout = ${OPENING_TIMEOUT_MS}`);
  // The usual case, asked first: setting it needs the file alone.
  if (client.pragma("journal_mode") !== "wal") client.pragma("journal_mode = WAL");
  client.exec(`PRAGMA synchronous = ${settings.durability === "full" ? "FULL" : "NORMAL"}`);
  // Without a log beside it, NORMAL may damage the file at a power loss.
  if (client.pragma("journal_mode") !== "wal") client.exec("PRAGMA synchronous = FULL");
  client.pragma(`journal_size_limit = ${WAL_LIMIT_BYTES}`);
  if (settings.durability === "full") raiseDurability(client);
}

/** FULL at least, and on macOS a flush that reaches the disk and not only its cache. */
function raiseDurability(client: SqliteClient): void {
  if (Number(client.pragma("synchronous")) < 2) client.exec("PRAGMA synchronous = FULL");
  client.exec("PRAGMA fullfsync = ON");
  client.exec("PRAGMA checkpoint_fullfsync = ON");
}

/** Tables, format, and whose clock: after this, steps may run. */
function takePossession(parts: {
  readonly client: SqliteClient;
  readonly settings: Settings;
  readonly context: DriverContext;
  readonly path: string | null;
  readonly open: OpenDatabase | undefined;
  readonly sharing: Sharing;
}): { readonly sql: Statements; readonly release: (() => void) | undefined } {
  const { client, settings, context, path, open, sharing } = parts;
  const { clock, host } = context;
  const sql = statements(settings.tablePrefix);
  const file = path ?? "in memory";
  const meta = ensureSchema(client, sql, { create: settings.autoCreate, file });
  const me = identityOf(host);
  let release: (() => void) | undefined;
  if (path !== null && open !== undefined) {
    if (isLonely(me.boot)) release = takeSoleUse(path, host.id, open);
    else if (isLonely(meta.boot)) refuseBesideSoleUser(path, open);
  }
  try {
    if (meta.boot !== me.boot || meta.clock !== me.clock)
      client.transaction(() => {
        const [now, wall] = [clock.mono(), clock.wall()];
        adopt(client, sql, { me, sharing, now, wall, file });
      });
  } catch (error) {
    release?.();
    throw error;
  }
  return { sql, release };
}

function databasePath(client: SqliteClient): string | null {
  const list = client.all(DATABASES);
  const file = list.find(({ name }) => name === "main")?.file ?? "";
  return file === "" ? null : file;
}

// args: none. returns the attached databases.
const DATABASES: NamedSql<{ readonly name: string; readonly file: string }> = {
  name: "databases",
  text: "PRAGMA database_list",
};
