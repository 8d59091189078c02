import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { buildFirst, MAIN, place, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const here = { ...place(), main: MAIN };
const { env, folder, file, read } = here;
const run = async (args: readonly string[], more: NodeJS.ProcessEnv = {}) =>
  ringfence(["run", ...args], { env: { ...env, ...more } });
const sh = (script: string) => ["--", "sh", "-c", script];

describe("exit codes", () => {
  it.each([
    ["exit 0", 0],
    ["exit 7", 7],
    ["exit 255", 255],
    ["kill -9 $$", 137],
    ["kill -TERM $$", 143],
  ])("passes on what `%s` ends with", async (script, code) => {
    expect(await run(["codes", ...sh(script)])).toMatchObject({ code, signal: null, stderr: "" });
  });

  it("is 127 for a command that is not there, before it waits for the lock", async () => {
    const holder = start(["run", "absent", ...sh("echo in; sleep 30")], { env });
    await until(() => holder.stdout() !== "");
    const ended = await run(["absent", "--", "no-such-command"]);
    holder.child.kill();
    await holder.ended;
    expect(ended.code).toBe(127);
    expect(ended.stderr).toContain("no-such-command: command not found");
  });

  it("is 126 for what cannot be executed", async () => {
    writeFileSync(file("text"), "no program");
    expect((await run(["x", "--", file("text")])).code).toBe(126);
    expect((await run(["x", "--", folder])).code).toBe(126);
  });

  it("is 64 for wrong usage, with a suggestion", async () => {
    const option = await run(["x", "--tll", "5s", "--", "true"]);
    expect(option.code).toBe(64);
    expect(option.stderr).toContain("--ttl");
    const command = await ringfence(["rum"], { env });
    expect(command.code).toBe(64);
    expect(command.stderr).toContain("run");
    expect((await run(["x"])).code).toBe(64);
    expect((await run(["x", "--ttl", "5"])).code).toBe(64);
    expect((await run(["", "--", "true"])).code).toBe(64);
    const grace = await run(["x", "--ttl", "3s", "--grace", "3s", "--", "true"]);
    expect(grace.code).toBe(64);
    expect(grace.stderr).toContain("--grace 1570ms or less");
  });

  it("is 78 for a store that this build cannot use, and shows no password", async () => {
    const urls = ["etcd://u:hunter2@h:2379", "zookeeper://u:hunter2@h/db"];
    for (const url of urls) {
      const { code, stderr } = await run(["x", "--", "true"], { RINGFENCE_STORE: url });
      expect(code).toBe(78);
      expect(stderr).toContain("***");
      expect(stderr).not.toContain("hunter2");
    }
    expect((await run(["x", "--", "true"], { RINGFENCE_STORE: "nonsense" })).code).toBe(78);
    expect((await run(["x", "--store", "nonsense", "--", "true"])).code).toBe(64);
  });

  it("is 78 without a home", async () => {
    const ended = await ringfence(["run", "x", "--", "true"], { env: { PATH: env["PATH"] } });
    expect(ended.code).toBe(78);
    expect(ended.stderr).toContain("RINGFENCE_STORE");
  });

  it("is 78 for a store that is no database", async () => {
    mkdirSync(file("closed"));
    writeFileSync(file("closed/locks.db"), "this is no database, and was never meant to be one");
    const broken = await run(["x", "--store", `sqlite:${file("closed/locks.db")}`, "--", "true"]);
    expect(broken.code).toBe(78);
  });
});

describe("the child", () => {
  it("gets our streams, no shell, and the lease in its environment", async () => {
    const script = `
      process.stdin.pipe(process.stdout);
      console.error(JSON.stringify([process.argv.slice(1), process.env]))`;
    const ended = await ringfence(
      ["run", "env", "--", process.execPath, "-e", script, "--", "a b", "$HOME", ""],
      { env: { ...env, RINGFENCE_TOKEN: "1", RINGFENCE_LOCK: "outer" }, input: "through stdin" },
    );
    expect(ended.stdout).toBe("through stdin");
    const [args, seen] = JSON.parse(ended.stderr) as [string[], Record<string, string>];
    expect(args).toEqual(["a b", "$HOME", ""]);
    expect(seen["RINGFENCE_LOCK"]).toBe("env");
    expect(BigInt(seen["RINGFENCE_TOKEN"] ?? "")).toBeGreaterThan(1n);
    expect(seen["RINGFENCE_GRANT_ID"]).toMatch(/^[\w-]{27}$/);
    expect(seen["RINGFENCE_SEQUENCER"]).toMatch(/^rf1\./);
  });

  it("gets larger tokens, one run after the other", async () => {
    const tokens: bigint[] = [];
    for (let i = 0; i < 3; i += 1)
      tokens.push(BigInt((await run(["rise", ...sh("echo $RINGFENCE_TOKEN")])).stdout));
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(3);
  });

  it("has no outer token under a permit, which has none", async () => {
    const script = sh("echo ${RINGFENCE_TOKEN-none}");
    const ended = await run(["permit", "--permits", "2", ...script], { RINGFENCE_TOKEN: "1" });
    expect(ended.stdout).toBe("none\n");
  });

  it("runs with stdin closed, and with stdout and stderr that nobody reads", async () => {
    const shell = (line: string) =>
      spawnSync("sh", ["-c", line, process.execPath, here.main], { env, encoding: "utf8" });
    expect(shell('"$0" "$1" run closed -- sh -c "exit 5" <&-').status).toBe(5);
    expect(shell('"$0" "$1" run closed -- sh -c "exit 5" <&- >&- 2>&-').status).toBe(5);
    expect(
      shell('{ "$0" "$1" run closed -v -- sh -c "sleep 0.1; exit 5" 2>&1; echo $? >&2; } | true')
        .stderr,
    ).toBe("5\n");
    // The child is ended by SIGPIPE, as without the wrapper.
    expect(shell('{ "$0" "$1" run closed -- yes; echo $? >&2; } | head -1').stderr).toBe("141\n");
  });

  it("gets blocking streams, whatever we have said on them", async () => {
    const look = sh("cat /proc/self/fdinfo/1 /proc/self/fdinfo/2");
    const { stdout } = await run(["flags", "-v", ...look]);
    const flags = [...stdout.matchAll(/flags:\s*(\d+)/g)].map(([, octal = ""]) =>
      Number.parseInt(octal, 8),
    );
    expect(flags).toHaveLength(2);
    for (const each of flags) expect(each & 0o4000).toBe(0);
  });
});

describe("waiting", () => {
  it("says who holds the lock, and gives up when --wait says so", async () => {
    const holder = start(["run", "busy", "--label", "the holder", ...sh("echo in; sleep 30")], {
      env,
    });
    await until(() => holder.stdout() !== "");
    const ended = await run(["busy", "--wait", "1200ms", ...sh("echo never")]);
    expect(ended).toMatchObject({ code: 75, stdout: "" });
    expect(ended.stderr).toMatch(/waiting for busy, held by the holder on \S+ \(pid \d+\)/);
    expect(ended.stderr).toMatch(/busy is busy after 1\w* \(--wait 1s\), held by the holder/);
    expect(ended.tookMs).toBeGreaterThan(1200);
    const once = await run(["busy", "-n", ...sh("echo never")]);
    expect(once).toMatchObject({ code: 75, stdout: "" });
    expect(once.stderr.trim().split("\n")).toHaveLength(1);
    expect(await run(["busy", "-n", "-E", "9", "--", "true"])).toMatchObject({ code: 9 });
    expect(await run(["busy", "-n", "-E", "0", "--", "true"])).toMatchObject({
      code: 0,
      stderr: "",
    });
    const verbose = await run(["busy", "-n", "-E", "0", "-v", "--", "true"]);
    expect(verbose.stderr).toContain("busy is busy");
    holder.child.kill();
    await holder.ended;
    expect((await run(["busy", "-n", "--", "true"])).code).toBe(0);
  });

  it("gets its turn when the holder ends", async () => {
    const holder = start(["run", "turn", ...sh("echo in; sleep 0.7")], { env });
    await until(() => holder.stdout() !== "");
    const next = await run(["turn", "--wait", "20s", ...sh("echo mine")]);
    expect(next).toMatchObject({ code: 0, stdout: "mine\n" });
  });

  it("lets shared holders in together, and as many as there are permits", async () => {
    const meet = (name: string) =>
      sh(`touch ${file(name)}-$$; for i in $(seq 400); do
            set -- ${file(name)}-*; [ $# -ge 2 ] && exit 0; sleep 0.02; done; exit 1`);
    const [a, b, c, d] = await Promise.all([
      run(["shared", "--shared", ...meet("shared")]),
      run(["shared", "--shared", ...meet("shared")]),
      run(["two", "--permits", "2", ...meet("two")]),
      run(["two", "--permits", "2", ...meet("two")]),
    ]);
    expect([a.code, b.code, c.code, d.code]).toEqual([0, 0, 0, 0]);
  });

  it("refuses a run inside a run on the same name, however deep, and no other", async () => {
    const inner = (name: string) => `"${process.execPath}" "${here.main}" run ${name} -- `;
    const direct = await run(["outer", ...sh(`${inner("outer")} true`)]);
    expect(direct.code).toBe(64);
    expect(direct.stderr).toContain("is held by a `ringfence run` around this one");
    const deep = await run(["outer", ...sh(`${inner("between")} ${inner("outer")} true`)]);
    expect(deep.code).toBe(64);
    const other = await run(["outer", ...sh(`${inner("between")} true`)]);
    expect(other.code).toBe(0);
    const elsewhere = `RINGFENCE_STORE=sqlite:${file("elsewhere.db")} ${inner("outer")} true`;
    expect((await run(["outer", ...sh(elsewhere)])).code).toBe(0);
  });
});

describe("--once", () => {
  it("runs once in its time, however many ask at the same time", async () => {
    const script = sh(`echo ran >> ${file("once")}; sleep 0.2`);
    const all = await Promise.all(
      Array.from({ length: 6 }, async () => run(["nightly", "--once", "1h", "-E", "0", ...script])),
    );
    expect(all.map(({ code, stderr }) => [code, stderr])).toEqual(Array(6).fill([0, ""]));
    expect(read("once")).toBe("ran\n");
    const later = await run(["nightly", "--once", "1h", ...script]);
    expect(later.code).toBe(75);
    expect(later.stderr).toContain("nightly ran already");
  });

  it("counts a failed run, unless --retry-on-error", async () => {
    expect((await run(["fails", "--once", "1h", ...sh("exit 3")])).code).toBe(3);
    expect((await run(["fails", "--once", "1h", ...sh("exit 3")])).code).toBe(75);
    const retry = ["again", "--once", "1h", "--retry-on-error"];
    expect((await run([...retry, ...sh("exit 3")])).code).toBe(3);
    expect((await run([...retry, ...sh("exit 0")])).code).toBe(0);
    expect((await run([...retry, ...sh("exit 0")])).code).toBe(75);
  });

  it("tells runs of different scheduled times apart", async () => {
    const at = (time: string) => ["tick", "--once", "1h", "--at", time, "--", "true"];
    expect((await run(at("2031-05-01T02:00:00Z"))).code).toBe(0);
    expect((await run(at("2031-05-01T02:00:00Z"))).code).toBe(75);
    expect((await run(at("2031-05-02T02:00:00Z"))).code).toBe(0);
  });
});

describe("the store", () => {
  it("is named by a flag, else by the environment, else it is the user's", async () => {
    const says = async (args: readonly string[], more: NodeJS.ProcessEnv = {}) =>
      (await run(["x", "-v", ...args, "--", "true"], more)).stderr;
    const more = { RINGFENCE_STORE: `sqlite:${file("env.db")}` };
    writeFileSync(file("url"), `sqlite:${file("file.db")}\n`);
    expect(await says(["--store", `sqlite:${file("flag.db")}`], more)).toContain(
      `store: sqlite:${file("flag.db")} (--store)`,
    );
    expect(await says(["--store-file", file("url")], more)).toContain(
      `store: sqlite:${file("file.db")} (--store-file)`,
    );
    expect(await says([], more)).toContain(`store: sqlite:${file("env.db")} (RINGFENCE_STORE)`);
    expect(await says([])).toContain(`store: sqlite:${folder}/ringfence/locks.db (default)`);
  });

  it("warns about a password on the command line, and does not repeat it", async () => {
    const { stderr } = await run(["x", "--store", "redis://u:hunter2@h", "--", "true"]);
    expect(stderr).toContain("can be seen by everybody");
    expect(stderr).not.toContain("hunter2");
  });

  it("keeps namespaces apart", async () => {
    const holder = start(["run", "ns", ...sh("echo in; sleep 30")], { env });
    await until(() => holder.stdout() !== "");
    expect((await run(["ns", "-n", "--namespace", "other", "--", "true"])).code).toBe(0);
    expect((await run(["ns", "-n", "--", "true"], { RINGFENCE_NAMESPACE: "other" })).code).toBe(0);
    expect((await run(["ns", "-n", "--", "true"])).code).toBe(75);
    holder.child.kill();
    await holder.ended;
  });

  it("is the same file for a command in another folder", async () => {
    chmodSync(folder, 0o700);
    const holder = start(["run", "cwd", ...sh("echo in; sleep 30")], { env, cwd: "/" });
    await until(() => holder.stdout() !== "");
    expect((await ringfence(["run", "cwd", "-n", "--", "true"], { env, cwd: folder })).code).toBe(
      75,
    );
    holder.child.kill();
    await holder.ended;
  });
});
