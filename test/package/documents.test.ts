import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createPool } from "mysql2/promise";
import { Pool } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { documents as generated } from "../../scripts/documents.ts";
import { shownScenarios } from "../../scripts/guarantees.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { mysqlDriver } from "../../src/drivers/mysql/index.ts";
import { postgresDriver } from "../../src/drivers/postgres/index.ts";
import { sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import type { Declaration } from "../../src/index.ts";
import { list } from "../../src/lab/index.ts";
import { command } from "../fixtures/command.ts";
import { ensureBuilt, plainEnv, ROOT } from "./built.ts";

const text = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const documents = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT })
  .toString()
  .trim()
  .split("\n");

let folder: string;
beforeAll(() => {
  ensureBuilt();
  folder = mkdtempSync(join(tmpdir(), "ringfence-documents-"));
}, 60_000);
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

it("the README's example is the one in examples/, and does what it says", async () => {
  const [, example] = /```ts\n([\s\S]*?)```/.exec(text("README.md")) ?? [];
  expect(example).toBe(text("examples/stock.ts"));
  const tsx = join(ROOT, "node_modules/tsx/dist/cli.mjs");
  const { code, stdout, stderr } = await command(
    process.execPath,
    [tsx, join(ROOT, "examples/stock.ts")],
    { cwd: folder, env: plainEnv() },
  );
  expect([code, stdout, stderr]).toEqual([0, "2 left\n", ""]);
});

it("the README shows the two commands as they are typed", () => {
  expect(text("README.md")).toContain("```sh\nnpm start\nnpm test\n```");
});

/** The anchor that a heading gets. */
function anchorOf(heading: string): string {
  const words = heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "");
  return words.trim().replaceAll(" ", "-");
}

it("every relative link leads to a file, and to a heading in it", () => {
  const broken: string[] = [];
  for (const path of documents) {
    const links = text(path)
      .replace(/```[\s\S]*?```/g, "")
      .matchAll(/\]\((?!https?:)([^)\s]*)\)/g);
    for (const [, link = ""] of links) {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : join(dirname(path), file);
      if (!existsSync(join(ROOT, target))) broken.push(`${path} -> ${link}`);
      else if (anchor !== undefined) {
        const headings = [...text(target).matchAll(/^#+ (.*)$/gm)].map(
          ([, heading = ""]) => heading,
        );
        if (!headings.map(anchorOf).includes(anchor)) broken.push(`${path} -> ${link}`);
      }
    }
  }
  expect(broken).toEqual([]);
});

it("docs/errors.md has every class and code, and no other", () => {
  const source = text("src/core/errors.ts");
  const all = (where: string, what: RegExp): string[] => [
    ...new Set([...where.matchAll(what)].map(([, name = ""]) => name)),
  ];
  const page = text("docs/errors.md");
  const codes = /export type ErrorCode =([\s\S]*?);/.exec(source)?.[1] ?? "";
  expect(all(page, /`(ERR_\w+)`/g).sort()).toEqual(all(codes, /"(ERR_\w+)"/g).sort());
  const classes = all(source, /^export class (\w+Error)\b/gm).filter((n) => n !== "RingfenceError");
  expect(all(page, /^\| `(\w+Error)`/gm).sort()).toEqual(classes.sort());
});

it.each<[string, Declaration]>([
  ["memory", memoryDriver()],
  ["sqlite", sqliteDriver("locks.db")],
  ["postgres", postgresDriver(new Pool())],
  ["mysql", mysqlDriver(createPool({}))],
])("docs/drivers/%s.md says what the driver declares", (name, declared) => {
  const page = text(`docs/drivers/${name}.md`);
  expect(page).toContain(`| fencing | \`${declared.fencing}\``);
  expect(page).toContain(`| waiting | \`${declared.waiting}\``);
  expect(page).toContain(`| modes | ${declared.modes.join(", ")} |`);
  expect(page).toContain(`| shortest ttl | ${declared.ttl.minMs} ms |`);
  const transfer = { yes: "yes", "same-host": "between processes of the same host", no: "no" };
  expect(page).toContain(`\`resume\`) | ${transfer[declared.transfer]} |`);
  const clock = ["postgres", "mysql"].includes(name) ? "server-wall" : "host-monotonic";
  expect(declared).toMatchObject({ liveness: "ttl", clock, mints: "at-grant" });
});

it("what is made from code stands in docs/ as code has it (`npm run docs` writes it)", () => {
  for (const [path, wanted] of generated()) expect(text(path), path).toBe(wanted);
});

it("each scenario that the guarantee table names is there, breaks its naive arm and not ours", () => {
  for (const id of shownScenarios()) {
    const scenario = list().find((each) => each.id === id);
    expect([id, scenario?.arms.naive.holds, scenario?.arms.ringfence.holds]).toEqual([
      id,
      false,
      true,
    ]);
  }
});

it("docs/guarantees.md shows each driver's fencing", () => {
  const row = /\| declared as `fencing` \|(.*)\|/.exec(text("docs/guarantees.md"))?.[1] ?? "";
  const cells = row.split("|").map((cell) => cell.replaceAll("`", "").trim());
  const full = sqliteDriver("locks.db", { durability: "full" });
  const drivers = [memoryDriver(), sqliteDriver("locks.db"), full];
  expect(cells).toEqual(drivers.map(({ fencing }) => fencing));
});

it("docs/field-cases.md names tests that exist, and every case that a test names", () => {
  const page = text("docs/field-cases.md");
  const shown = [...page.matchAll(/\]\(\.\.\/([^)]+)\): \*(.+?)\*(?=<br>| \|)/g)];
  const missing = shown.filter(([, path = "", name = ""]) => {
    // As it stands in the source, where quotes and backticks may be escaped.
    const source = text(path).replace(/\\(["`])/g, "$1");
    return !source.includes(name);
  });
  expect(missing.map(([, path, name]) => `${path}: ${name}`)).toEqual([]);
  expect(shown.length).toBeGreaterThan(80);
  const tests = execFileSync("git", ["ls-files", "test/*.test.ts"], { cwd: ROOT }).toString();
  const named = tests
    .trim()
    .split("\n")
    .flatMap((path) => [...text(path).matchAll(/\(((?:[BS]\d+, )*B\d+(?:, [BS]\d+)*)\)/g)])
    .flatMap(([, cases = ""]) => cases.split(", ").filter((name) => name.startsWith("B")));
  expect([...new Set(named)].filter((name) => !page.includes(`| ${name} |`))).toEqual([]);
});

it("the changelog uses its five headings, in order", () => {
  const order = ["Safety", "Added", "Changed", "Fixed", "Removed"];
  for (const version of text("CHANGELOG.md").split(/^## /m).slice(1)) {
    const used = [...version.matchAll(/^### (.*)$/gm)].map(([, heading = ""]) => heading);
    expect(used).toEqual(order.filter((heading) => used.includes(heading)));
  }
});
