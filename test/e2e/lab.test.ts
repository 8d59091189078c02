import { describe, expect, it } from "vitest";
import { SUBJECTS } from "../../src/lab/explore/subjects.ts";
import { EXIT_CODES } from "../../src/lab/index.ts";
import { buildFirst, place, ringfence } from "./ringfence.ts";

buildFirst();
const { env, file, read } = place();

interface Found {
  readonly conclusion: string;
  readonly runs: number;
  readonly counterexample: { readonly replay: string; readonly test: string } | null;
}

describe("ringfence lab", { timeout: 60_000 }, () => {
  it("lists what can be run, and where", async () => {
    const { code, stdout } = await ringfence(["lab", "list"], { env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^S04\tclaim-gap\tP4\tsimulated, real\ta late write/m);
    expect(stdout).toMatch(/^S38\thost-suspended\tP6\tsimulated\t/m);
    const { stdout: json } = await ringfence(["lab", "list", "-o", "json"], { env });
    expect(JSON.parse(json)).toContainEqual(
      expect.objectContaining({ id: "S04", name: "claim-gap", property: "P4" }),
    );
  });

  it("runs one by its number or name: what each arm came to, and 0 where Ringfence's held", async () => {
    const byName = await ringfence(["lab", "run", "claim-gap"], { env });
    expect(byName).toMatchObject({
      code: 0,
      stdout: "S04\tclaim-gap\tP4\tBROKEN\tBROKEN\tholds\theld\n",
      stderr: "",
    });
    expect((await ringfence(["lab", "run", "s04"], { env })).stdout).toBe(byName.stdout);
  });

  it("says it as JSON, with a sentence for what broke", async () => {
    const { stdout } = await ringfence(["lab", "run", "S04", "-o", "json"], { env });
    const [row] = JSON.parse(stdout) as { arms: { arm: string; sentences: string[] }[] }[];
    expect(row).toMatchObject({ id: "S04", conclusion: "held" });
    expect(row!.arms.map(({ arm, sentences }) => [arm, sentences.length > 0])).toEqual([
      ["naive", true],
      ["fence", true],
      ["ringfence", false],
    ]);
    expect(row!.arms[0]?.sentences[0]).toContain("the update v1 is lost");
  });

  it("writes the timeline of an arm, and its history in three forms", async () => {
    const written = async (...args: string[]): Promise<number | null> =>
      (await ringfence(["lab", "run", "S04", ...args], { env })).code;
    expect(await written("--html", file("a.html"), "--history", file("a.ndjson"))).toBe(0);
    expect(read("a.html")).toMatch(
      /^<!doctype html>[\s\S]*naive arm[\s\S]*<\/svg>[\s\S]*<\/html>\n$/,
    );
    expect(read("a.html")).not.toMatch(/(src|href)="http/);
    expect((await ringfence(["verify", file("a.ndjson")], { env })).code).toBe(1);
    expect(await written("--arm", "ringfence", "--history", file("b.ndjson"))).toBe(0);
    expect((await ringfence(["verify", file("b.ndjson")], { env })).stdout).toMatch(/^P4\theld/m);
    expect(await written("--history", file("a.edn"))).toBe(0);
    expect(read("a.edn")).toMatch(/^\{:/m);
    expect(await written("--history", file("a.mmd"))).toBe(0);
    expect(read("a.mmd")).toMatch(/^sequenceDiagram/);
    expect(await written("--history", file("a.txt"))).toBe(64);
  });

  it("names all that can be explored", async () => {
    const { stdout } = await ringfence(["lab", "explore", "--help"], { env });
    const said = stdout.split(/[\s,;]+/);
    expect(SUBJECTS.map(({ name }) => name).filter((name) => !said.includes(name))).toEqual([]);
  });

  it("looks for a schedule that breaks what is there to be broken, and repeats it from one line", async () => {
    const search = ["lab", "explore", "--subject", "S21", "-o", "json", "--history", file("f.mmd")];
    const { code, stdout } = await ringfence(search, { env });
    const found = JSON.parse(stdout) as Found;
    expect([code, found.conclusion]).toEqual([1, "violated"]);
    expect(read("f.mmd")).toMatch(/^sequenceDiagram/);
    const line = found.counterexample?.replay ?? "";
    expect(found.counterexample?.test).toContain(line);
    const again = await ringfence(["lab", "replay", line, "-o", "json"], { env });
    expect([again.code, (JSON.parse(again.stdout) as Found).conclusion]).toEqual([1, "violated"]);
  });

  it("finds nothing in the production core", async () => {
    const { code, stdout } = await ringfence(["lab", "explore", "--runs", "10"], { env });
    expect([code, stdout]).toEqual([0, "held: core, 10 runs\n"]);
  });

  it.each([
    [["run", "S99"], "lab list"],
    [["run", "S38", "--real"], "S38 runs in the simulator only"],
    [["run", "S08", "--real", "--store", "sqlite"], "is played with no other one"],
    [["run", "S04", "--real", "--store", "oracle"], "redis, sqlite or postgres"],
    [["run", "S04", "--arm", "left"], "naive, fence or ringfence"],
    [["replay", "lab1:nonsense"], "replay string"],
    [["explore", "--subject", "S01"], "Expected one of core"],
    [["explore", "--strategy", "luck"], "random, pct, bounded"],
    [["explore", "--minutes", "0"], "--minutes"],
  ] as const)("refuses %j in one line", async (args, words) => {
    const { code, stdout, stderr } = await ringfence(["lab", ...args], { env });
    expect([code, stdout]).toEqual([64, ""]);
    expect(stderr).toContain(words);
  });

  it("tells held, violated, no progress and undecided apart by its exit code", () => {
    expect(EXIT_CODES).toEqual({
      held: 0,
      violated: 1,
      "no progress": 2,
      undecided: 3,
      inconclusive: 3,
    });
  });
});
