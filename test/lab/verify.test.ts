import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { createLockManager } from "../../src/index.ts";
import { History } from "../../src/lab/history.ts";
import { HistoryFormatError, toNdjson } from "../../src/lab/ndjson.ts";
import { type Line, verifyFile, verifyLines } from "../../src/lab/verify.ts";
import { cleanHistory } from "./clean-history.ts";

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ringfence-verify-"));
  file = join(folder, "history.ndjson");
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** Two managers over one store work on a few names, hand them to each other, and lose one. */
async function work(): Promise<void> {
  const driver = memoryDriver();
  const managers = [1, 2].map(() => createLockManager(driver, { history: { file }, ttl: 2000 }));
  await Promise.all(
    managers.flatMap((manager, m) =>
      Array.from({ length: 6 }, async (_, n) => {
        for (let round = 0; round < 5; round += 1)
          await manager.request(`name-${n % 3}`, async (lease) => {
            lease.assertHeld();
            if ((m + n + round) % 3 === 0) await lease.renew();
          });
      }),
    ),
  );
  const [first, second] = managers;
  const lapsing = await first!.acquire("lapsing", { ttl: 50, keepalive: "off" });
  const next = await second!.acquire("lapsing");
  expect(lapsing.state).toBe("lost");
  await next.release();
  await Promise.all(managers.map(async (manager) => manager.close()));
}

type Recorded = Record<string, unknown>;

async function recorded(): Promise<Recorded[]> {
  const text = await readFile(file, "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Recorded);
}

async function rewrite(lines: readonly Recorded[]): Promise<void> {
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}

function linesIn(text: string): Line[][] {
  return [text.split("\n").map((line) => ({ text: line, torn: false }))];
}

describe("a history that managers recorded", () => {
  it("is held when the managers worked as they promise", { timeout: 90_000 }, async () => {
    await work();
    const { exit, verdicts, warnings, events, header } = await verifyFile(file);
    expect(
      verdicts.flatMap(({ violations }) => violations.map(({ sentence }) => sentence)),
    ).toEqual([]);
    expect([exit, warnings, header]).toEqual([0, [], undefined]);
    expect(events).toBeGreaterThan(150);
    const judged = verdicts.filter((verdict) => verdict.judged > 0).map(({ property }) => property);
    expect(judged).toEqual(expect.arrayContaining(["P1", "P5", "P12", "P14"]));
  });

  it("is violated in the right words when a release is missing and a deadline too long", async () => {
    await work();
    const lines = await recorded();
    const first = lines.find(({ type, name }) => type === "acquired" && name === "lapsing")!;
    first["deadlineMs"] = (first["deadlineMs"] as number) + 60_000;
    await rewrite(lines.filter((line) => !(line["type"] === "lost" && line["name"] === "lapsing")));
    const { exit, verdicts } = await verifyFile(file);
    expect(exit).toBe(1);
    const [broken] = verdicts.filter(({ verdict }) => verdict === false);
    expect(broken?.property).toBe("P1");
    expect(broken?.violations[0]?.sentence).toMatch(
      /^\d+\.\S{4} \(\d+\) came to hold "lapsing" at [\d.]+ m?s, while \d+\.\S{4} \(\d+\) could still believe until [\d.]+ s\.$/,
    );
    expect(broken?.violations[0]?.witness.map(({ f }) => f)).toEqual(["acquire", "acquire"]);
  });

  it("is violated when a token comes twice", async () => {
    await work();
    const lines = await recorded();
    const [one, two] = lines.filter(({ type, name }) => type === "acquired" && name === "lapsing");
    for (const line of lines)
      if (line["grantId"] === two!["grantId"]) line["token"] = one!["token"];
    await rewrite(lines);
    const { exit, verdicts } = await verifyFile(file);
    const sentences = verdicts.flatMap(({ violations }) =>
      violations.map(({ sentence }) => sentence),
    );
    expect(exit).toBe(1);
    expect(sentences.join()).toContain(
      `Two grants of "lapsing" have the token ${String(one!["token"])}`,
    );
  });

  it("is undecided when events were dropped, or stand too far from their place", async () => {
    await work();
    const lines = await recorded();
    await rewrite([...lines, { type: "dropped", count: 7 }]);
    const dropped = await verifyFile(file);
    expect(dropped.exit).toBe(3);
    expect(dropped.warnings[0]).toContain("7 events are missing");
    const acquired = lines.findIndex(({ type }) => type === "acquired");
    await rewrite([...lines.filter((_, n) => n !== acquired), lines[acquired]!]);
    expect((await verifyFile(file)).exit).toBe(0);
    expect((await verifyFile(file, { window: 10 })).exit).toBe(3);
  });

  it("is not judged by clocks of two boots", async () => {
    await work();
    const lines = await recorded();
    const again = lines.map((line) => ({
      ...line,
      process: `${String(line["process"])}2`,
      // Another boot, 5 s later by the wall clock, overlapping by nothing.
      monoMs: (line["monoMs"] as number) / 2,
      ...(line["deadlineMs"] === undefined
        ? {}
        : { deadlineMs: (line["monoMs"] as number) / 2 + 60_000 }),
    }));
    await rewrite([...lines, ...again]);
    const { verdicts } = await verifyFile(file);
    expect(verdicts.find(({ property }) => property === "P1")?.reasons.join()).toContain(
      "agree only roughly",
    );
  });

  it("may end in a torn line, and in nothing else that is not an event", async () => {
    await work();
    const text = await readFile(file, "utf8");
    await writeFile(file, text.slice(0, -20));
    const torn = await verifyFile(file);
    expect(torn.warnings).toEqual(["The last line is torn: whoever wrote it was ended."]);
    await writeFile(file, `${text.slice(0, 300)}\n${text}`);
    await expect(verifyFile(file)).rejects.toThrow(HistoryFormatError);
  });
});

describe("a history of the lab", () => {
  it("is judged from its file as from memory, and keeps every field", async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const { events, late } = cleanHistory(seed);
      const history = new History({ scenario: "S01", seed: String(seed) });
      for (const event of events) history.append({ ...event });
      const read: unknown[] = [];
      const result = await verifyLines(linesIn([...toNdjson(history)].join("")), {
        onEvent: (event) => read.push(event),
      });
      expect(result.header).toEqual(history.header);
      expect(read).toEqual([...history]);
      expect(result.exit).toBe(late && result.verdicts[1]?.verdict === false ? 1 : 0);
    }
  });

  it.each([
    ["{", /^line 2: /],
    ["[]", "line 2: expected an object"],
    ['{"i":0,"t":1,"p":"A","inc":0,"k":"ok"}', 'line 2: the event has no "f"'],
    ['{"i":0,"t":1,"p":"A","inc":0,"k":"ok","f":"fly"}', 'line 2: "f" cannot be "fly"'],
    ['{"i":0,"t":1,"p":"A","inc":0,"k":"ok","f":"read","x":1}', "line 2: an event has no field x"],
    ['{"i":0,"t":1,"p":"A","inc":0,"k":"ok","f":"read","token":7}', 'line 2: expected "token"'],
    ['{"i":0,"t":1,"p":"A","inc":0,"k":"ok","f":"read","token":"07"}', 'line 2: expected "token"'],
    ['{"i":0,"t":"1","p":"A","inc":0,"k":"ok","f":"read"}', 'line 2: "t" cannot be "1"'],
    ['{"i":0,"t":1,"p":"A","inc":0,"k":"ok","f":"read","constructor":1}', "no field constructor"],
  ])("refuses %s", async (line, message) => {
    const text = `${[...toNdjson(new History())].join("")}${line}\n`;
    await expect(verifyLines(linesIn(text))).rejects.toThrow(message);
  });

  it("is undecided when it is empty", async () => {
    expect((await verifyLines([])).exit).toBe(3);
  });
});
