import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildFirst, MAIN, place, type Running, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env, file } = place();
const call = async (...args: string[]) => ringfence(args, { env });

describe("what is held", () => {
  let holder: Running;
  let waiter: Running;
  beforeAll(async () => {
    const script = ["--", "sh", "-c", "echo in; sleep 60"];
    holder = start(["run", "jobs/held", "--label", "the holder", ...script], { env });
    await until(() => holder.stdout() !== "");
    waiter = start(["run", "jobs/held", "--label", "the waiter", ...script], { env });
    await until(() => waiter.stderr().includes("waiting for"));
  });
  afterAll(async () => {
    waiter.child.kill();
    holder.child.kill();
    await Promise.all([waiter.ended, holder.ended]);
  });

  it("is listed as plain columns in a pipe", async () => {
    const { code, stdout, stderr } = await call("ls");
    expect([code, stderr]).toEqual([0, ""]);
    const rows = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t"));
    expect(rows.map(([name, state]) => [name, state])).toEqual([
      ["jobs/held", "held"],
      ["jobs/held", "waits"],
    ]);
    expect(rows[0]?.[3]).toMatch(/^the holder on \S+ \(pid \d+\)$/);
    expect(rows[0]).toHaveLength(8);
  });

  it("is listed as one pure line of JSON", async () => {
    const { stdout } = await call("ls", "--prefix", "jobs/", "-o", "json");
    expect(stdout.endsWith("}\n")).toBe(true);
    const [held] = (JSON.parse(stdout) as { held: Record<string, unknown>[] }).held;
    expect(held).toMatchObject({
      name: "jobs/held",
      mode: "exclusive",
      holder: { label: "the holder", pid: holder.pid },
      token: expect.stringMatching(/^\d+$/) as string,
      since: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
      remainingMs: expect.any(Number) as number,
    });
    expect(await call("ls", "-o", "name")).toMatchObject({ stdout: "jobs/held\n" });
    expect(await call("ls", "--prefix", "other/")).toMatchObject({ code: 0, stdout: "" });
  });

  it("is shown by inspect, and answered by inspect -q", async () => {
    const { stdout } = await call("inspect", "jobs/held");
    expect(stdout).toMatch(/holder\s+the holder on .*\n/);
    expect(stdout).toMatch(/waits\s+the waiter on .*\n/);
    const json = JSON.parse((await call("inspect", "jobs/held", "-o", "json")).stdout) as object;
    expect(json).toMatchObject({ name: "jobs/held", held: [{}], pending: [{}] });
    expect(await call("inspect", "-q", "jobs/held")).toMatchObject({ code: 0, stdout: "" });
    expect(await call("inspect", "-q", "jobs/free")).toMatchObject({ code: 1, stdout: "" });
    writeFileSync(file("broken.db"), "this is no database, and was never meant to be one");
    const broken = ["--store", `sqlite:${file("broken.db")}`];
    expect(await call("inspect", "-q", "x", ...broken)).toMatchObject({ code: 69, stdout: "" });
    expect((await call("inspect", "-q", "")).code).toBe(64);
  });

  it("is streamed by watch, one line of JSON a change", async () => {
    const watch = start(["watch", "-o", "json", "--interval", "100ms"], { env });
    await until(() => watch.stdout().includes("\n"));
    await call("run", "jobs/brief", "--", "sleep", "0.5");
    await until(() => watch.stdout().trimEnd().split("\n").length >= 3);
    watch.child.kill();
    expect(await watch.ended).toMatchObject({ code: null, signal: "SIGTERM", stderr: "" });
    const lines = watch.stdout().trimEnd().split("\n");
    const names = lines.map((line) =>
      (JSON.parse(line) as { held: { name: string }[] }).held.map(({ name }) => name),
    );
    expect(names[0]).toEqual(["jobs/held"]);
    expect(names).toContainEqual(["jobs/brief", "jobs/held"]);
    expect(names.at(-1)).toEqual(["jobs/held"]);
  });

  it("is not revoked by accident", async () => {
    const refused = await call("revoke", "jobs/held", "--reason", "a test");
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain("--yes");
    expect((await call("revoke", "jobs/held", "--yes")).code).toBe(64);
    const another = ["--grant-id", "A".repeat(27), "--reason", "a test", "--yes"];
    expect((await call("revoke", "jobs/held", ...another)).code).toBe(1);
    expect((await call("revoke", "jobs/free", "--reason", "a test", "--yes")).code).toBe(1);
    expect((await call("inspect", "-q", "jobs/held")).code).toBe(0);
  });
});

describe("completion", () => {
  it.each(["bash", "zsh", "fish"])("prints a script for %s", async (shell) => {
    const { code, stdout } = await call("completion", shell);
    expect(code).toBe(0);
    expect(stdout).toContain("ringfence");
    const known = spawnSync(shell, ["-n"], { input: stdout });
    if (known.error === undefined) expect(known.status).toBe(0);
  });

  it("completes commands, options and lock names in bash", async () => {
    const { stdout } = await call("completion", "bash");
    const complete = (line: string): string[] => {
      const words = line.split(" ");
      const script = `${stdout}
        ringfence() { "${process.execPath}" "${MAIN}" "$@"; }
        COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}
        _ringfence; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return spawnSync("bash", ["-c", script], { env, encoding: "utf8" }).stdout.trim().split("\n");
    };
    expect(complete("ringfence in")).toEqual(["inspect"]);
    expect(complete("ringfence run x --lock")).toEqual(["--lock-delay"]);
    expect(complete("ringfence ls -o j")).toEqual(["json"]);
    const holder = start(["run", "complete-me", "--", "sh", "-c", "echo in; sleep 30"], { env });
    await until(() => holder.stdout() !== "");
    expect(complete("ringfence inspect comp")).toEqual(["complete-me"]);
    holder.child.kill();
    await holder.ended;
  });

  it("is refused for another shell", async () => {
    expect((await call("completion", "csh")).code).toBe(64);
  });
});

describe("help", () => {
  it("is what the bare command prints", async () => {
    const bare = await call();
    expect(bare).toMatchObject({ code: 0, stderr: "" });
    expect(bare.stdout).toBe((await call("--help")).stdout);
    expect(bare.stdout).toBe((await call("help")).stdout);
    expect((await call("help", "run")).stdout).toBe((await call("run", "--help")).stdout);
    expect(bare.stdout).toMatchSnapshot();
  });

  it.each(["run", "ls", "inspect", "revoke", "watch", "completion", "demo"])(
    "of %s has examples first and exit codes last",
    async (command) => {
      const { code, stdout, stderr } = await call(command, "--help");
      expect([code, stderr]).toEqual([0, ""]);
      expect(stdout.indexOf("Examples:")).toBeLessThan(stdout.indexOf("Usage:"));
      expect(stdout.indexOf("Exit codes:")).toBeGreaterThan(stdout.indexOf("Usage:"));
      expect(stdout).toMatchSnapshot();
    },
  );

  it("suggests what was meant", async () => {
    expect((await call("inspct", "x")).stderr).toContain("inspect");
    expect((await call("ls", "--prefx", "x")).stderr).toContain("--prefix");
    const output = await call("ls", "-o", "yaml");
    expect([output.code, output.stdout]).toEqual([64, ""]);
    expect(output.stderr).toContain("table, json, name");
  });

  it("survives a reader that goes away", () => {
    const line = `{ "$0" "$1" --help; echo $? >&2; } | true`;
    const { stderr } = spawnSync("sh", ["-c", line, process.execPath, MAIN], { encoding: "utf8" });
    expect(["0\n", "141\n"]).toContain(stderr);
  });

  it("prints its version", async () => {
    expect(await call("--version")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string,
    });
  });
});
