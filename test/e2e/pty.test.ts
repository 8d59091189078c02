import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { alive, buildFirst, MAIN, place, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env, file, read } = place();
const terminals = new Set<ChildProcess>();
afterAll(() => {
  for (const terminal of terminals) terminal.kill("SIGKILL");
});

/** `ringfence` as one types it. */
const RINGFENCE = `"${process.execPath}" "${MAIN}"`;

/** A command on a terminal of its own, made by script(1) of util-linux. */
class Terminal {
  readonly #script: ChildProcess;
  readonly ended: Promise<number | null>;
  text = "";

  constructor(line: string) {
    // `exec` keeps the shell that script starts out of the terminal's foreground group.
    this.#script = spawn("script", ["-qefc", `exec ${line}`, "/dev/null"], {
      env: { ...env, SHELL: "/bin/sh", TERM: "xterm" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    terminals.add(this.#script);
    this.#script.stdout?.on("data", (chunk: Buffer) => (this.text += chunk.toString()));
    this.ended = new Promise((resolve) => this.#script.once("close", resolve));
  }

  type(keys: string): void {
    this.#script.stdin?.write(keys);
  }

  async shows(text: string): Promise<void> {
    await until(() => this.text.includes(text), 15_000);
  }
}

const onLinux = describe.runIf(process.platform === "linux");

onLinux("on a terminal", () => {
  it("lets the child ask at the terminal", async () => {
    const terminal = new Terminal(
      `${RINGFENCE} run ask -- sh -c 'printf "name? "; read name </dev/tty; echo "hello $name"'`,
    );
    await terminal.shows("name? ");
    terminal.type("rider\n");
    expect(await terminal.ended).toBe(0);
    expect(terminal.text).toContain("hello rider");
  });

  it("leaves ^C to the terminal: the child gets it once, and the lock is held until its end", async () => {
    const terminal = new Terminal(
      `${RINGFENCE} run break -- sh -c 'trap "echo got; sleep 1; echo end; exit 7" INT; echo in; while :; do sleep 0.05; done'`,
    );
    await terminal.shows("in");
    terminal.type("\x03");
    await terminal.shows("got");
    const busy = await ringfence(["run", "break", "-n", "--", "true"], { env });
    if (!terminal.text.includes("end")) expect(busy.code).toBe(75);
    expect(await terminal.ended).toBe(7);
    expect(terminal.text.match(/got/g)).toHaveLength(1);
  });

  it("is ended by ^C while it waits, with nothing left behind", async () => {
    const holder = start(
      ["run", "queue", "--label", "someone", "--", "sh", "-c", "echo in; sleep 30"],
      {
        env,
      },
    );
    await until(() => holder.stdout() !== "");
    const terminal = new Terminal(`${RINGFENCE} run queue -- echo never`);
    await terminal.shows("waiting for queue, held by someone");
    // One line, written over and over.
    await terminal.shows("; waited ");
    expect(terminal.text).not.toContain("\n");
    terminal.type("\x03");
    expect(await terminal.ended).toBe(130);
    const list = await ringfence(["ls", "-o", "json"], { env });
    expect(JSON.parse(list.stdout)).toMatchObject({ held: [{ name: "queue" }], pending: [] });
    holder.child.kill();
    await holder.ended;
  });

  it("stops with ^Z together with its child, and goes on with it", async () => {
    const terminal = new Terminal(
      `bash -c 'set -m; ${RINGFENCE} run stop -- sh -c "echo in; echo \\$\\$ > ${file("stop")}; sleep 0.2; sleep 0.2; sleep 0.2; sleep 0.2; exit 5"; echo back; sleep 1; fg >/dev/null; echo code $?'`,
    );
    await terminal.shows("in");
    await until(() => read("stop") !== "");
    terminal.type("\x1a");
    await until(() => readFileSync(`/proc/${read("stop").trim()}/stat`, "utf8").includes(" T "));
    await terminal.shows("back");
    await terminal.shows("code 5");
    await terminal.ended;
  });

  it("ends its child when it was stopped with ^Z for longer than the lease", async () => {
    const terminal = new Terminal(
      `bash -c 'set -m; ${RINGFENCE} run late --ttl 1s -- sh -c "echo in; echo \\$\\$ > ${file("late")}; while :; do sleep 0.1; done"; echo back; sleep 1.5; fg >/dev/null; echo code $?'`,
    );
    await terminal.shows("in");
    await until(() => read("late") !== "");
    terminal.type("\x1a");
    await terminal.shows("code 79");
    expect(alive(Number(read("late")))).toBe(false);
    await terminal.ended;
  });

  it("asks before it revokes, and takes no for an answer", async () => {
    const holder = start(["run", "asked", "--", "sh", "-c", "echo in; sleep 30"], { env });
    await until(() => holder.stdout() !== "");
    const revoke = `${RINGFENCE} revoke asked --reason "a test"`;
    const no = new Terminal(revoke);
    await no.shows("Revoke it? [y/N]");
    no.type("\n");
    expect(await no.ended).toBe(1);
    const cut = new Terminal(revoke);
    await cut.shows("Revoke it? [y/N]");
    cut.type("\x03");
    expect(await cut.ended).not.toBe(0);
    expect((await ringfence(["inspect", "-q", "asked"], { env })).code).toBe(0);
    const yes = new Terminal(revoke);
    await yes.shows("Revoke it? [y/N]");
    expect(yes.text).toContain("holder");
    yes.type("y\n");
    expect(await yes.ended).toBe(0);
    expect((await ringfence(["inspect", "-q", "asked"], { env })).code).toBe(1);
    holder.child.kill();
    await holder.ended;
  });

  it("draws a table, in colour only where that is wanted", async () => {
    const holder = start(["run", "drawn", "--", "sh", "-c", "echo in; sleep 30"], { env });
    await until(() => holder.stdout() !== "");
    const plain = new Terminal(`env NO_COLOR=1 ${RINGFENCE} ls`);
    await plain.ended;
    expect(plain.text).toMatch(/^NAME +STATE +MODE/);
    const colored = new Terminal(`${RINGFENCE} ls`);
    await colored.ended;
    expect(colored.text).toContain("\x1b[1mNAME");
    holder.child.kill();
    await holder.ended;
  });
});
