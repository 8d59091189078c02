import type { PostgresUrl } from "../connect/postgres.ts";
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
  const { options } = await postgresOf(url);
  const { postgresSchema } = await import("../drivers/postgres/index.ts");
  await writeOut(postgresSchema(options));
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
  const { url: address, options } = await postgresOf(url);
  const { postgresClient } = await import("../connect/postgres.ts");
  const { postgresDriver } = await import("../drivers/postgres/index.ts");
  return postgresDriver(await postgresClient(address), { ...options, autoCreate: true });
}

async function postgresOf(url: string): Promise<PostgresUrl> {
  const [, rest, query] = /^postgres(?:ql|\+advisory)?:([^?]*)(?:\?(.*))?$/is.exec(url) ?? [];
  if (rest === undefined)
    throw new ExitError(
      EXIT.usage,
      `only sqlite: and postgres: stores have tables, not ${redactUrl(url)}`,
    );
  const { parsePostgresUrl } = await import("../connect/postgres.ts");
  return parsePostgresUrl(rest, new URLSearchParams(query ?? ""));
}
