import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { rejection, World } from "../fixtures/world.ts";

const folder = mkdtempSync(join(tmpdir(), "ringfence-history-"));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function linesOf(file: string): { readonly type: string; readonly cause?: unknown }[] {
  return readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string });
}

describe("a history file", () => {
  it("records each event once, and is whole when the manager is closed", async () => {
    const file = join(folder, "whole.jsonl");
    const manager = new World().manager({ history: { file } });
    await manager.request("a", () => 1);
    await manager.close();
    expect(linesOf(file).map(({ type }) => type)).toEqual([
      "requested",
      "acquired",
      "releasing",
      "released",
    ]);
  });

  it("keeps no wait from ending, whatever the reason of its abort is", async () => {
    const file = join(folder, "odd.jsonl");
    const world = new World();
    await world.manager().acquire("a");
    const manager = world.manager({ history: { file } });
    const odd: Record<string, unknown> = {};
    odd["self"] = odd;
    const abort = new AbortController();
    const waiting = rejection(manager.acquire("a", { signal: abort.signal }));
    await world.clock.advance(10);
    abort.abort(odd);
    expect(await world.clock.settle(waiting)).toBe(odd);
    await manager.close();
    expect(linesOf(file).map(({ type }) => type)).toEqual(["requested", "refused"]);
  });
});

describe("diagnostics channels", () => {
  it("carry every event, also that a holder lets go", async () => {
    const told: unknown[] = [];
    const listen = (message: unknown): void => {
      told.push((message as { readonly type: string }).type);
    };
    const channels = ["requested", "acquired", "releasing", "released"].map(
      (name) => `ringfence:${name}`,
    );
    for (const each of channels) subscribe(each, listen);
    await new World().manager().request("a", () => 1);
    for (const each of channels) unsubscribe(each, listen);
    expect(told).toEqual(["requested", "acquired", "releasing", "released"]);
  });
});
