import type { Driver } from "../core/driver.ts";
import { BackendConfigError, InvalidArgumentError, UnsupportedError } from "../core/errors.ts";
import { redactUrl } from "./redact.ts";

export { redactUrl } from "./redact.ts";

/** Makes a driver from a URL that was split at its scheme. */
type Connector = (store: StoreUrl) => Promise<Driver>;

/** A store URL, split where every scheme splits alike. */
interface StoreUrl {
  /** As it may be shown: without passwords. */
  readonly shown: string;
  /** What follows `scheme:`, without the query. */
  readonly rest: string;
  readonly query: URLSearchParams;
}

const CONNECTORS: Record<string, Connector> = {
  memory: async (store) => {
    if (store.rest.replace(/^\/\//, "") !== "")
      throw complaint(store, '"memory:", which has no address');
    refuseQuery(store, []);
    const { memoryDriver } = await driverModule(
      async () => import("../drivers/memory/index.ts"),
      "memory",
    );
    return memoryDriver();
  },
  sqlite: async (store) => {
    const path = sqlitePath(store);
    refuseQuery(store, ["durability"]);
    const durability = store.query.get("durability") ?? "normal";
    if (durability !== "normal" && durability !== "full")
      throw complaint(store, "`durability=normal` or `durability=full`");
    const { sqliteDriver } = await driverModule(
      async () => import("../drivers/sqlite/index.ts"),
      "sqlite",
    );
    return durability === "full"
      ? sqliteDriver(path, { durability })
      : sqliteDriver(path, { durability });
  },
  redis: async (store) => redis("redis", store),
  rediss: async (store) => redis("rediss", store),
  redlock,
  postgres: async (store) => postgres(store),
  postgresql: async (store) => postgres(store),
  "postgres+advisory": async (store) => postgres(store, true),
  mysql,
  mariadb: mysql,
};

/** Schemes with a meaning of their own that this build has no driver for. */
const WITHOUT_DRIVER = ["etcd", "zookeeper", "dynamodb"];

/**
 * The driver for a store URL: `memory:`, `sqlite:/path`, `sqlite:relative`, `sqlite:///absolute` (with
 * `?durability=full` where each grant must survive a power loss), `redis://host`, `rediss://host`,
 * `redlock:redis://a,redis://b,redis://c` for a quorum of independent servers, `postgres://host/db`,
 * `postgres+advisory://host/db`, and `mysql://host/db` or `mariadb://host/db`. Percent-escapes in a path are decoded. It loads only the driver that the scheme names,
 * and connects at the first use, not here. Messages never show a password.
 * @throws InvalidArgumentError for what is no store URL
 * @throws UnsupportedError for a scheme whose driver this build does not have
 */
export async function connect(url: string): Promise<Driver> {
  const [, scheme, address, query] = /^([a-z][a-z0-9+.-]*):([^?]*)(?:\?(.*))?$/is.exec(url) ?? [];
  if (scheme === undefined || address === undefined)
    throw new InvalidArgumentError(
      `Expected the store to be a URL such as "sqlite:/var/lib/app/locks.db", got ${JSON.stringify(redactUrl(url))}. ${known()}`,
    );
  const connector = CONNECTORS[scheme.toLowerCase()];
  if (connector !== undefined)
    return connector({
      shown: redactUrl(url),
      rest: address,
      query: new URLSearchParams(query ?? ""),
    });
  if (WITHOUT_DRIVER.includes(scheme.toLowerCase()))
    throw new UnsupportedError(
      `This build of ringfence has no driver for ${scheme.toLowerCase()}: ("${redactUrl(url)}"). It has ${list(Object.keys(CONNECTORS))}.`,
    );
  throw new InvalidArgumentError(
    `Expected a store URL with a known scheme, got ${JSON.stringify(redactUrl(url))}. ${known()}`,
  );
}

function known(): string {
  return `Known schemes: ${list([...Object.keys(CONNECTORS), ...WITHOUT_DRIVER])}.`;
}

function list(schemes: readonly string[]): string {
  return schemes.map((scheme) => `${scheme}:`).join(", ");
}

function complaint(store: StoreUrl, expected: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `Expected the store URL to have ${expected}, got ${JSON.stringify(store.shown)}.`,
  );
}

function refuseQuery(store: StoreUrl, allowed: readonly string[]): void {
  for (const key of store.query.keys())
    if (!allowed.includes(key))
      throw complaint(
        store,
        `only known parameters (${allowed.join(", ") || "none"}), not \`${key}\``,
      );
}

/** `/path`, `relative` and `///absolute`; `//host/path` would be a file of another machine. */
function sqlitePath(store: StoreUrl): string {
  let path = store.rest;
  if (path.startsWith("//")) {
    path = path.slice(2).replace(/^localhost(?=\/)/, "");
    if (!path.startsWith("/")) throw complaint(store, "no host: sqlite:/path or sqlite:///path");
  }
  if (path === ":memory:")
    throw complaint(store, "a file; a database in memory excludes nobody, for tests use memory:");
  try {
    path = decodeURIComponent(path);
  } catch {
    throw complaint(store, "valid percent-escapes (write a plain % as %25)");
  }
  if (path === "" || path.endsWith("/")) throw complaint(store, "the path of a file");
  return path;
}

/** `redis://[user:password@]host[:port][/db]`, with `?replicas=1`, `?efficiencyOnly=true` or `?cluster=true`. */
async function redis(scheme: string, store: StoreUrl): Promise<Driver> {
  refuseQuery(store, ["replicas", "efficiencyOnly", "cluster"]);
  if (!/^\/\/[^/]/.test(store.rest) || !URL.canParse(`${scheme}:${store.rest}`))
    throw complaint(store, "a host: redis://host:6379");
  const replicas = Number(store.query.get("replicas") ?? "0");
  if (!Number.isInteger(replicas) || replicas < 0)
    throw complaint(store, "a whole number of `replicas`");
  const { redisFromUrl } = await import("./redis.ts");
  const options = {
    replicas,
    efficiencyOnly: flag(store, "efficiencyOnly"),
    cluster: flag(store, "cluster"),
  };
  return redisFromUrl(`${scheme}:${store.rest}`, options);
}

/** `postgres://[user:password@]host[:port]/database`, our parameters and those of the client library mixed. */
async function postgres(store: StoreUrl, advisory = false): Promise<Driver> {
  if (!store.rest.startsWith("//") || !URL.canParse(`postgres:${store.rest}`))
    throw complaint(store, "an address: postgres://user@host:5432/database");
  const { parsePostgresUrl, postgresClient } = await import("./postgres.ts");
  const { url, options } = parsePostgresUrl(store.rest, store.query);
  const drivers = await import("../drivers/postgres/index.ts");
  const client = await postgresClient(url);
  return advisory
    ? drivers.postgresAdvisoryDriver(client, options)
    : drivers.postgresDriver(client, options);
}

/** `mysql://[user:password@]host[:port]/database`, our parameters and those of the client library mixed. */
async function mysql(store: StoreUrl): Promise<Driver> {
  if (!store.rest.startsWith("//") || !URL.canParse(`mysql:${store.rest}`))
    throw complaint(store, "an address: mysql://user@host:3306/database");
  const { mysqlClient, parseMysqlUrl } = await import("./mysql.ts");
  const { url, options } = parseMysqlUrl(store.rest, store.query);
  const { mysqlDriver } = await import("../drivers/mysql/index.ts");
  return mysqlDriver(await mysqlClient(url), options);
}

/** `redlock:redis://a,redis://b,redis://c`, with `?quorum=3` or `?efficiencyOnly=true`. */
async function redlock(store: StoreUrl): Promise<Driver> {
  refuseQuery(store, ["quorum", "efficiencyOnly"]);
  const urls = store.rest.split(",");
  if (!urls.every((url) => /^rediss?:\/\/[^/]/.test(url) && URL.canParse(url)))
    throw complaint(store, "a list of servers: redlock:redis://a,redis://b,redis://c");
  const asked = store.query.get("quorum");
  const quorum = asked === null ? null : Number(asked);
  if (quorum !== null && !Number.isInteger(quorum)) throw complaint(store, "a whole `quorum`");
  const { redlockFromUrls } = await import("./redis.ts");
  return redlockFromUrls(urls, { quorum, efficiencyOnly: flag(store, "efficiencyOnly") });
}

function flag(store: StoreUrl, name: string): boolean {
  const value = store.query.get(name) ?? "false";
  if (value !== "true" && value !== "false") throw complaint(store, `\`${name}=true\` or none`);
  return value === "true";
}

/** Says which package to install when a driver's own import fails, instead of a stack from the module loader. */
async function driverModule<M>(load: () => Promise<M>, scheme: string): Promise<M> {
  try {
    return await load();
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND";
    if (!missing) throw cause;
    throw new BackendConfigError(
      `The driver for ${scheme}: needs a package that is not installed: ${(cause as Error).message}`,
      { operation: "open", outcome: "not-applied", cause },
    );
  }
}
