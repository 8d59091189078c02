import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../../..");
const moduleUrl = pathToFileURL(join(root, "src/cli/libc.ts")).href;

it("the short report names the C library that the whole one names, and libsql loads by it", () => {
  const script = `
    const whole = "glibcVersionRuntime" in process.report.getReport().header;
    const { shortenReport } = await import(${JSON.stringify(moduleUrl)});
    shortenReport();
    const short = process.report.getReport();
    const { default: Database } = await import("libsql");
    const row = new Database(":memory:").prepare("SELECT 1 AS one").get();
    process.stdout.write(JSON.stringify({ short, whole, row }));
  `;
  const words = ["--import", "tsx", "--input-type=module", "-e", script];
  const told = execFileSync(process.execPath, words, { encoding: "utf8", cwd: root });
  const { short, whole, row } = JSON.parse(told) as Record<string, Record<string, unknown>>;
  expect(row?.["one"]).toBe(1);
  expect("glibcVersionRuntime" in (short?.["header"] as object)).toBe(whole);
  // Elsewhere nobody asks, and the report stays whole.
  expect(Object.keys(short ?? {}).length === 2).toBe(process.platform === "linux");
});
