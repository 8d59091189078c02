import { resolve } from "node:path";
import { ESLint } from "eslint";
import tseslint from "typescript-eslint";
import { beforeAll, describe, expect, it } from "vitest";

let eslint: ESLint;

beforeAll(() => {
  // Planted text is in no project, so the rules that need types are off; the ones under test need none.
  eslint = new ESLint({
    cwd: resolve(import.meta.dirname, "../.."),
    overrideConfig: [tseslint.configs.disableTypeChecked],
  });
});

/** How often the rules against time and chance complain about `code` in a file of that path. */
async function complaints(path: string, code: string): Promise<number> {
  const [result] = await eslint.lintText(code, { filePath: path });
  const fatal = result?.messages.filter((message) => message.fatal) ?? [];
  expect(fatal).toEqual([]);
  return (
    result?.messages.filter(({ ruleId }) => ruleId?.startsWith("no-restricted-") === true).length ??
    0
  );
}

const FORBIDDEN = [
  "setTimeout(() => {}, 1);",
  "setInterval(() => {}, 1);",
  "setImmediate(() => {});",
  "const t = setTimeout;",
  "globalThis.setTimeout(() => {}, 1);",
  'globalThis["setTimeout"](() => {}, 1);',
  "const { setTimeout: later } = globalThis;",
  "const g = globalThis;",
  "const key = 'set' + 'Timeout'; globalThis[key]();",
  'import { setTimeout as sleep } from "node:timers/promises";',
  'import { setTimeout as sleep } from "timers/promises";',
  'import timers from "node:timers";',
  'import * as timers from "timers";',
  'const t = await import("node:timers/promises");',
  'const t = require("node:timers");',
  "Date.now();",
  'Date["now"]();',
  "const { now } = Date;",
  "const D = Date;",
  "new Date();",
  "Date();",
  "new globalThis.Date();",
  "performance.now();",
  "globalThis.performance.now();",
  'import { performance } from "node:perf_hooks";',
  'import { performance } from "perf_hooks";',
  "process.hrtime();",
  "process.hrtime.bigint();",
  "process.uptime();",
  "const { hrtime } = process;",
  'import { hrtime } from "node:process";',
  'process.getBuiltinModule("node:timers");',
  "process.getBuiltinModule(name);",
  'import { uptime } from "node:os";',
  'import os from "node:os"; os.uptime();',
  "AbortSignal.timeout(5);",
  "const { timeout } = AbortSignal;",
  "Atomics.wait(new Int32Array(1), 0, 0, 5);",
  "Math.random();",
  'Math["random"]();',
  "const { random } = Math;",
  "const M = Math;",
  "crypto.randomUUID();",
  "crypto.getRandomValues(new Uint8Array(8));",
  "globalThis.crypto.randomUUID();",
  'import { randomUUID } from "node:crypto";',
  'import { randomBytes } from "crypto";',
  'import crypto from "node:crypto";',
  'import * as crypto from "node:crypto";',
];

describe("time and chance are refused in core, drivers and guards", () => {
  it.each(FORBIDDEN)("%s", async (code) => {
    for (const folder of ["core", "drivers/memory", "guards/file"])
      expect(await complaints(`src/${folder}/planted.ts`, code), folder).toBeGreaterThan(0);
  });
});

it.each(FORBIDDEN)("runtime may: %s", async (code) => {
  expect(await complaints("src/runtime/planted.ts", code)).toBe(0);
});

it.each(["process.pid;", 'Buffer.from("a");', "const g = global.x;"])(
  "core knows no host: %s",
  async (code) => {
    expect(await complaints("src/core/planted.ts", code)).toBeGreaterThan(0);
  },
);

it.each([
  "new Date(5).toISOString();",
  "const at: Date | string = x; at instanceof Date;",
  "Math.max(1, 2);",
  'import { createHash } from "node:crypto";',
  'import { hostname } from "node:os";',
  "clock.timer(5, () => {});",
  'process.getBuiltinModule("node:sqlite");',
])("what is pure stays allowed: %s", async (code) => {
  expect(await complaints("src/drivers/memory/planted.ts", code)).toBe(0);
});
