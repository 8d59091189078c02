import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { showAge } from "../../../src/cli/age.ts";
import { flagsOf } from "../../../src/cli/option-spec.ts";
import { run } from "../../../src/cli/run.ts";
import { parsePlainRun, RUN_OPTIONS } from "../../../src/cli/run-options.ts";
import { type RunOptions, runSettings } from "../../../src/cli/run-settings.ts";
import { splitCommand } from "../../../src/cli/split-command.ts";
import { chooseStore } from "../../../src/cli/store.ts";
import { renderTable } from "../../../src/cli/table.ts";

const folder = mkdtempSync(join(tmpdir(), "ringfence-cli-unit-"));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const env = { XDG_STATE_HOME: folder };

describe("splitCommand", () => {
  const flags = RUN_OPTIONS.map(flagsOf);
  const split = (line: string) => {
    const { own, command: words } = splitCommand(line.split(" "), flags);
    return [own.join(" "), words.join(" ")];
  };

  it("splits at the first --", () => {
    expect(split("x --ttl 5s -- make -n -- a")).toEqual(["x --ttl 5s", "make -n -- a"]);
    expect(split("-n x -- true")).toEqual(["-n x", "true"]);
  });
  it("takes the second word for the command where that needs no --", () => {
    expect(split("x --ttl 5s sleep 5")).toEqual(["x --ttl 5s", "sleep 5"]);
    expect(split("-nE 0 x true")).toEqual(["-nE 0 x", "true"]);
    expect(split("-E0 --wait=5s x true")).toEqual(["-E0 --wait=5s x", "true"]);
    expect(split("x cat -")).toEqual(["x", "cat -"]);
  });
  it("refuses to guess whose an option is", () => {
    expect(() => split("x --ttl 5s make -n")).toThrow(
      "put -- before the command, since it has options of its own: ringfence run x --ttl 5s -- make -n",
    );
  });
});

describe("parsePlainRun", () => {
  /** What Commander makes of the same arguments. */
  const byCommander = (argv: readonly string[]) => {
    const command = new Command("run")
      .exitOverride()
      .configureOutput({ writeErr: () => undefined });
    run.define(command, () => undefined);
    const { own, command: words } = splitCommand(argv, command.options);
    command.parse(own, { from: "user" });
    return { name: command.args[0], words, options: command.opts() };
  };
  const option = fc
    .constantFrom(...RUN_OPTIONS.map(flagsOf))
    .chain(({ short, long = "", required }) =>
      fc.tuple(
        fc.constantFrom(long, short ?? long),
        required ? fc.constantFrom("5s", "-1", "a b", "") : fc.constant(null),
      ),
    );

  it("reads plain arguments as Commander does", () => {
    fc.assert(
      fc.property(fc.array(option), fc.array(option), (before, after) => {
        const words = (options: typeof before) => options.flat().filter((word) => word !== null);
        const argv = [...words(before), "name", ...words(after), "--", "make", "-n"];
        expect(parsePlainRun(argv)).toEqual(byCommander(argv));
      }),
      { seed: 881, numRuns: 300 },
    );
  });
  it.each(["x --tll 5s", "x y", "--help", "x --ttl=5s", "-nq x", "-E0 x", "x --ttl", ""])(
    "leaves `%s` to Commander",
    (line) => {
      expect(parsePlainRun([...line.split(" ").filter(Boolean), "--", "true"])).toBeNull();
    },
  );
});

describe("runSettings", () => {
  const settings = (options: RunOptions) => runSettings("x", ["/bin/true", "a"], options, env);

  it("has the documented defaults", () => {
    expect(settings({})).toMatchObject({
      name: "x",
      command: "/bin/true",
      args: ["a"],
      waitMs: null,
      ttlMs: 30_000,
      lockDelayMs: 0,
      mode: "exclusive",
      once: null,
      label: "true",
      busyCode: 75,
      level: "normal",
      namespace: "default",
    });
  });
  it("reads durations with units, and 0 without", () => {
    expect(settings({ wait: "0" }).waitMs).toBe(0);
    expect(settings({ wait: false }).waitMs).toBe(0);
    expect(settings({ wait: "forever" }).waitMs).toBeNull();
    expect(settings({ wait: "2h" }).waitMs).toBe(7_200_000);
    expect(() => settings({ wait: "5" })).toThrow('Did you mean "5ms" or "5s"?');
  });
  it("is quiet where a busy lock counts as success, unless asked", () => {
    expect(settings({ conflictExitCode: "0" }).level).toBe("quiet");
    expect(settings({ conflictExitCode: "0", verbose: true }).level).toBe("verbose");
  });
  it.each<[RunOptions, string]>([
    [{ shared: true, permits: "2" }, "--shared and --permits exclude each other"],
    [{ once: "1h", wait: "5s" }, "--once, which never waits, and --wait exclude each other"],
    [{ once: "1h", permits: "2" }, "--once and --permits exclude each other"],
    [{ at: "x" }, "--at needs --once"],
    [{ retryOnError: true }, "--retry-on-error needs --once"],
    [{ permits: "0" }, "Expected `--permits` to be a whole number from 1 to 1000000"],
    [{ watchFd: "2" }, "Expected `--watch-fd` to be a whole number from 3 to 255"],
    [{ conflictExitCode: "256" }, "from 0 to 255"],
    [{ store: "memory:", storeFile: "f" }, "--store and --store-file exclude each other"],
    [{ ttl: "10s", grace: "9s" }, "does not fit a ttl of 10 s"],
  ])("refuses %o", (options, message) => {
    expect(() => settings(options)).toThrow(message);
  });
  it("wants a command", () => {
    expect(() => runSettings("x", [], {}, env)).toThrow("what should run under the lock?");
  });
});

describe("chooseStore", () => {
  it("prefers a flag to the environment, and that to the default", () => {
    const file = join(folder, "url");
    writeFileSync(file, "# the shared one\nsqlite:/from/file\n");
    const both = { ...env, RINGFENCE_STORE: "sqlite:/from/env" };
    expect(chooseStore({ store: "sqlite:/flag" }, both).url).toBe("sqlite:/flag");
    expect(chooseStore({ storeFile: file }, both).url).toBe("sqlite:/from/file");
    expect(chooseStore({}, both).url).toBe("sqlite:/from/env");
    expect(chooseStore({}, env).url).toBe(`sqlite:${folder}/ringfence/locks.db`);
  });
  it("uses HOME where XDG_STATE_HOME is not absolute", () => {
    expect(chooseStore({}, { HOME: folder, XDG_STATE_HOME: "state" }).url).toBe(
      `sqlite:${folder}/.local/state/ringfence/locks.db`,
    );
  });
  it("escapes what a URL would read as a query", () => {
    expect(chooseStore({}, { HOME: join(folder, "50%?") }).url).toContain("50%25%3F/");
  });
  it("is an error of configuration without a home", () => {
    expect(() => chooseStore({}, {})).toThrow(
      expect.objectContaining({ exitCode: 78, message: expect.stringContaining("HOME") as string }),
    );
  });
  it("is an error of configuration when the file holds no URL", () => {
    const file = join(folder, "empty");
    writeFileSync(file, "# nothing\n");
    expect(() => chooseStore({ storeFile: file }, env)).toThrow(
      expect.objectContaining({ exitCode: 78 }),
    );
  });
});

it("shows ages in at most two units", () => {
  const ages = [0, 999, 1500, 59_400, 61_000, 3_600_000, 7_500_000, 864_000_000];
  expect(ages.map(showAge)).toEqual([
    "0ms",
    "999ms",
    "2s",
    "59s",
    "1m01s",
    "1h00m",
    "2h05m",
    "10d",
  ]);
});

it("keeps a cell in its column, whatever it holds", () => {
  expect(renderTable(["A", "B"], [["a\tb\nc", "d"]], false)).toBe("a b c\td\n");
  expect(renderTable(["NAME", "B"], [["x", "y"]], true)).toContain("x     y\n");
});
