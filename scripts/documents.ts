/** Writes into docs/ what is made from code: `npm run docs`. */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Redis } from "ioredis";
import { createPool } from "mysql2/promise";
import { Pool } from "pg";
import { memoryDriver } from "../src/drivers/memory/index.ts";
import { mysqlDriver } from "../src/drivers/mysql/index.ts";
import { postgresAdvisoryDriver, postgresDriver } from "../src/drivers/postgres/index.ts";
import { redisDriver } from "../src/drivers/redis/index.ts";
import { redlockDriver } from "../src/drivers/redlock/index.ts";
import { sqliteDriver } from "../src/drivers/sqlite/index.ts";
import { type Column, guaranteeTable, scenarioTable } from "./guarantees.ts";

const ROOT = resolve(import.meta.dirname, "..");

/** Every driver; nothing connects. */
function columns(): readonly Column[] {
  const redis = (): Redis => new Redis({ lazyConnect: true });
  const pool = new Pool();
  return [
    { title: "memory", declared: memoryDriver() },
    { title: "SQLite", declared: sqliteDriver("locks.db") },
    {
      title: 'SQLite, `durability: "full"`',
      declared: sqliteDriver("l.db", { durability: "full" }),
    },
    { title: "Redis", declared: redisDriver(redis()) },
    { title: "Redlock", declared: redlockDriver([redis(), redis(), redis()]) },
    { title: "PostgreSQL", declared: postgresDriver(pool) },
    { title: "PostgreSQL, advisory", declared: postgresAdvisoryDriver(pool) },
    { title: "MySQL, MariaDB", declared: mysqlDriver(createPool({})) },
  ];
}

/** The documents with generated parts, as they should be, by their path. */
export function documents(): ReadonlyMap<string, string> {
  const parts: readonly (readonly [string, string, string])[] = [
    ["docs/guarantees.md", "drivers", guaranteeTable(columns())],
    ["docs/lab.md", "scenarios", scenarioTable()],
  ];
  return new Map(
    parts.map(([path, name, text]) => [
      path,
      readFileSync(join(ROOT, path), "utf8").replace(
        new RegExp(`(<!-- generated: ${name} -->\n)[\\s\\S]*?(<!-- end -->)`),
        (_all, head: string, tail: string) => `${head}\n${text}\n\n${tail}`,
      ),
    ]),
  );
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href)
  for (const [path, text] of documents()) writeFileSync(join(ROOT, path), text);
