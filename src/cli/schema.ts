import { redactUrl } from "../connect/redact.ts";
import type { Driver } from "../core/driver.ts";
import type { Action, CommandModule, Invocation } from "./command-module.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import type { Messages } from "./messages.ts";
import { writeOut } from "./stdio.ts";
import { chooseStore, connectStore, type StoreOptions } from "./store.ts";
import { withStore } from "./with-store.ts";

type Deed = (url: string, invocation: Invocation) => Promise<void>;

/** `ringfence schema print | apply` */
export const schema: CommandModule = {
  name: "schema",
  summary: "print or make the tables of a store that has some",
  define(command, act) {
    withExamples(command, [
      ["ringfence schema print --store postgres:///app > locks.sql", "for a migration"],
      ["ringfence schema apply", "make what is missing in the store of RINGFENCE_STORE"],
    ]);
    withExitCodes(command, [
      ["0", "printed, or all is there now"],
      ["64", "wrong usage, or a store without tables"],
      ["69", "the store cannot be reached"],
      ["78", "wrong configuration, or not allowed to make them"],
    ]);
    const define = (name: string, summary: string, action: Deed): void => {
      const sub = withStore(command.command(name).summary(summary));
      sub.action((options: StoreOptions) => {
        act(actionOf(options, action));
      });
    };
    define("print", "print the statements, without connecting", print);
    define("apply", "run the statements; safe to run again, and by many at once", apply);
  },
};

function actionOf(options: StoreOptions, action: Deed): Action {
  return async (invocation: Invocation) => {
    await action(chooseStore(options, invocation.env).url, invocation);
    return EXIT.done;
  };
}

async function print(url: string): Promise<void> {
  if (/^sqlite:/i.test(url)) {
    const { sqliteSchema } = await import("../drivers/sqlite/index.ts");
    await writeOut(sqliteSchema());
    return;
  }
  const { drivers, options } = await tablesOf(url);
  await writeOut(drivers.schema(options));
}

/** The driver makes what is missing at its first use; that it may not do so otherwise is no matter here. */
async function apply(url: string, { messages }: Invocation): Promise<void> {
  const { createLockManager } = await import("../index.ts");
  const locks = createLockManager(await makerOf(url, messages), { trustSettings: true });
  try {
    await locks.inspect("schema");
  } finally {
    await locks.close();
  }
}

async function makerOf(url: string, messages: Messages): Promise<Driver> {
  if (/^sqlite:/i.test(url)) return await connectStore({ url, from: "--store" }, messages);
  const { drivers, options, address } = await tablesOf(url);
  return await drivers.driver(address, { ...options, autoCreate: true });
}

/** Of one kind of database: what prints its tables, and what makes them. */
interface Tables {
  readonly schema: (options: object) => string;
  readonly driver: (address: string, options: object) => Promise<Driver>;
}

/** The database that a URL names, and the options in it. */
async function tablesOf(
  url: string,
): Promise<{ readonly drivers: Tables; readonly options: object; readonly address: string }> {
  const [, scheme = "", rest, query] =
    /^(postgres(?:ql|\+advisory)?|mysql|mariadb):([^?]*)(?:\?(.*))?$/is.exec(url) ?? [];
  if (rest === undefined)
    throw new ExitError(
      EXIT.usage,
      `only sqlite:, postgres: and mysql: stores have tables, not ${redactUrl(url)}`,
    );
  const parameters = new URLSearchParams(query ?? "");
  if (/^postgres/i.test(scheme)) {
    const { parsePostgresUrl } = await import("../connect/postgres.ts");
    const { options, url: address } = parsePostgresUrl(rest, parameters);
    return { drivers: await postgresTables(), options, address };
  }
  const { parseMysqlUrl } = await import("../connect/mysql.ts");
  const { options, url: address } = parseMysqlUrl(rest, parameters);
  return { drivers: await mysqlTables(), options, address };
}

async function postgresTables(): Promise<Tables> {
  const { postgresClient } = await import("../connect/postgres.ts");
  const { postgresDriver, postgresSchema } = await import("../drivers/postgres/index.ts");
  return {
    schema: postgresSchema,
    driver: async (address, options) => postgresDriver(await postgresClient(address), options),
  };
}

async function mysqlTables(): Promise<Tables> {
  const { mysqlClient } = await import("../connect/mysql.ts");
  const { mysqlDriver, mysqlSchema } = await import("../drivers/mysql/index.ts");
  return {
    schema: mysqlSchema,
    driver: async (address, options) => mysqlDriver(await mysqlClient(address), options),
  };
}
