import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { History } from "../../src/lab/history.ts";
import { toNdjson } from "../../src/lab/ndjson.ts";
import { claimed, claimGap } from "../lab/scenes.ts";
import { buildFirst, place, ringfence } from "./ringfence.ts";

buildFirst();
const { env, file, read } = place();

function written(name: string, history: History): string {
  writeFileSync(file(name), [...toNdjson(history)].join(""));
  return file(name);
}

describe("ringfence verify", () => {
  it("says violated, with the sentence, and writes a report", async () => {
    const history = written("gap.ndjson", claimGap());
    const report = file("report.html");
    const { code, stdout, stderr } = await ringfence(["verify", history, "--html", report], {
      env,
    });
    expect([code, stderr]).toEqual([1, ""]);
    expect(stdout).toMatch(
      /^P4\tviolated\t2\tB \(34\) read v7 of "parcel <7>" at 12\.3 s; A \(33\) wrote v8/m,
    );
    expect(stdout).toMatch(/^P3\theld\t2\t$/m);
    expect(read("report.html")).toMatch(/^<!doctype html>[\s\S]*<\/svg>[\s\S]*<\/html>\n$/);
  });

  it("says so as JSON, with the witness", async () => {
    const { code, stdout } = await ringfence(["verify", file("gap.ndjson"), "-o", "json"], { env });
    expect(code).toBe(1);
    const result = JSON.parse(stdout) as { outcome: string; verdicts: { property: string }[] };
    expect(result.outcome).toBe("violated");
    expect(result.verdicts.find(({ property }) => property === "P4")).toMatchObject({
      verdict: false,
      violations: [{ witness: [{ f: "read" }, { f: "write", token: "33" }, { f: "write" }] }],
    });
  });

  it("says undecided of an empty history", async () => {
    expect((await ringfence(["verify", written("empty", new History())], { env })).code).toBe(3);
  });

  it("says no progress where only a waiter was forgotten", async () => {
    const history = claimed();
    const last = history.at(history.length - 1);
    history.append({ t: last.t + 1e9, p: "nemesis", k: "event", f: "heal" });
    const C = { p: "C", lock: "stock", op: 20, f: "acquire" } as const;
    history.append({ ...C, t: last.t + 2e9, k: "invoke", ttl: 1e9 });
    history.append({ t: last.t + 99e9, p: "C", k: "event", f: "held?", accepted: false });
    const late = history.at(8);
    const inTime = new History(history.header);
    // Without the late, refused write everything but progress is right.
    for (const event of history) if (event !== late) inTime.append({ ...event });
    const { code, stdout } = await ringfence(["verify", written("stuck", inTime)], { env });
    expect([code, stdout.match(/^\S+\tviolated/gm)]).toEqual([2, ["P8\tviolated"]]);
  });

  it("refuses what is no history, in one line", async () => {
    writeFileSync(file("no"), '{"hello":1}\n');
    const wrong = await ringfence(["verify", file("no")], { env });
    expect([wrong.code, wrong.stdout]).toEqual([64, ""]);
    expect(wrong.stderr).toContain("line 1: unknown type of event: undefined");
    const missing = await ringfence(["verify", file("none")], { env });
    expect([missing.code, missing.stderr]).toEqual([64, expect.stringContaining("no such file")]);
  });
});
