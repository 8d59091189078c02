import { spawnSync } from "node:child_process";
import { constants, openSync, writeSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { alive, buildFirst, place, type Running, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env, file, read } = place();
const run = (args: readonly string[], script: string): Running =>
  start(["run", ...args, "--", "sh", "-c", script], { env });
const pidOf = async (name: string): Promise<number> => {
  await until(() => read(name).endsWith("\n"));
  return Number(read(name));
};

describe("a signal to the wrapper", () => {
  it.each(["HUP", "INT", "TERM", "QUIT", "USR1", "USR2"] as const)(
    "%s goes on to the child, and the lock is held until the child has ended",
    async (name) => {
      const wrapper = run(
        [`to-${name}`],
        `trap 'echo got ${name}; sleep 0.6; echo end; exit 3' ${name}; echo in; while :; do sleep 0.05; done`,
      );
      await until(() => wrapper.stdout() !== "");
      process.kill(wrapper.pid, `SIG${name}`);
      await until(() => wrapper.stdout().includes("got"));
      const busy = await ringfence(["run", `to-${name}`, "-n", "--", "true"], { env });
      const stillRunning = !wrapper.stdout().includes("end");
      const ended = await wrapper.ended;
      expect(ended).toMatchObject({ code: 3, stdout: `in\ngot ${name}\nend\n` });
      // Under load the question may have come too late to prove anything.
      if (stillRunning) expect(busy.code).toBe(75);
      const free = await ringfence(["run", `to-${name}`, "-n", "--", "true"], { env });
      expect(free.code).toBe(0);
    },
  );

  it("reaches grandchildren too", async () => {
    const wrapper = run(["group"], `sh -c 'echo $$ > ${file("group")}; exec sleep 30'; exit 4`);
    const pid = await pidOf("group");
    process.kill(wrapper.pid, "SIGTERM");
    expect((await wrapper.ended).code).toBe(143);
    await until(() => !alive(pid));
  });

  it("does not end the wrapper of a child that ignores it", async () => {
    const wrapper = run(["deaf"], "trap '' TERM; echo in; sleep 1; exit 6");
    await until(() => wrapper.stdout() !== "");
    process.kill(wrapper.pid, "SIGTERM");
    expect((await wrapper.ended).code).toBe(6);
  });

  it.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
    ["SIGHUP", 129],
  ] as const)("%s ends a wait, and nothing runs", async (signal, code) => {
    const holder = run([`wait-${signal}`], "echo in; sleep 30");
    await until(() => holder.stdout() !== "");
    const waiter = run([`wait-${signal}`], "echo never");
    await until(() => waiter.stderr().includes("waiting for"));
    process.kill(waiter.pid, "SIGUSR1");
    process.kill(waiter.pid, signal);
    const ended = await waiter.ended;
    expect(ended).toMatchObject({ code, stdout: "" });
    expect(ended.stderr).toContain(`ended by ${signal} while it waited`);
    holder.child.kill();
    await holder.ended;
  });
});

describe("a lost lease", () => {
  it("ends the child after --max-hold, and frees the lock when it has ended", async () => {
    const wrapper = run(["hold", "--ttl", "1s", "--max-hold", "400ms"], "echo in; sleep 30");
    const ended = await wrapper.ended;
    expect(ended.code).toBe(79);
    expect(ended.stderr).toContain("--max-hold");
    expect(ended.tookMs).toBeLessThan(20_000);
    expect((await ringfence(["run", "hold", "-n", "--", "true"], { env })).code).toBe(0);
  });

  it("ends the child when an operator revokes it", async () => {
    const wrapper = run(
      ["revoked", "--ttl", "900ms"],
      "trap 'exit 0' TERM; echo in; sleep 30 & wait",
    );
    await until(() => wrapper.stdout() !== "");
    const revoke = ["revoke", "revoked", "--reason", "a test", "--yes"];
    expect((await ringfence(revoke, { env })).code).toBe(0);
    const ended = await wrapper.ended;
    // The child ended well, and still this is no success.
    expect(ended.code).toBe(79);
    expect(ended.stderr).toContain("revoked");
  });

  it("kills a child that ignores TERM", async () => {
    const wrapper = run(
      ["stubborn", "--ttl", "1s", "--grace", "200ms", "--max-hold", "300ms"],
      "trap '' TERM; echo $$; while :; do sleep 0.05; done",
    );
    const ended = await wrapper.ended;
    expect(ended.code).toBe(79);
    expect(alive(Number(ended.stdout))).toBe(false);
  });

  it("is noticed at the first step of a wrapper that was stopped", async () => {
    const wrapper = run(["stopped", "--ttl", "1s"], `echo $$ > ${file("stopped")}; sleep 30`);
    const pid = await pidOf("stopped");
    process.kill(wrapper.pid, "SIGSTOP");
    const next = await ringfence(["run", "stopped", "--wait", "20s", "--", "echo", "mine"], {
      env,
    });
    expect(next).toMatchObject({ code: 0, stdout: "mine\n" });
    process.kill(wrapper.pid, "SIGCONT");
    expect((await wrapper.ended).code).toBe(79);
    expect(alive(pid)).toBe(false);
  });

  it("is dealt with although nobody reads our stderr: a full pipe", async () => {
    const fifo = file("fifo");
    spawnSync("mkfifo", [fifo]);
    const filler = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
    const full = openSync(fifo, constants.O_WRONLY);
    expect(() => {
      for (;;) writeSync(filler, "x".repeat(4096));
    }).toThrow("EAGAIN");
    const args = ["run", "full", "--ttl", "1s", "--max-hold", "300ms", "--", "sleep", "30"];
    const ended = await start(args, { env, stdio: ["ignore", "ignore", full] }).ended;
    expect(ended.code).toBe(79);
    expect(ended.tookMs).toBeLessThan(20_000);
  });

  it("is dealt with although nobody reads our stderr: a full socket", async () => {
    const args = ["run", "sock", "--ttl", "1s", "--max-hold", "300ms", "--", "sh", "-c", "yes >&2"];
    const wrapper = start(args, { env });
    wrapper.child.stderr?.removeAllListeners("data").pause();
    const code = await new Promise((resolve) => wrapper.child.once("exit", resolve));
    expect(code).toBe(79);
    wrapper.child.stderr?.destroy();
  });
});

describe("a wrapper that is killed", () => {
  it("takes its child with it, and frees the lock within the ttl", async () => {
    const ttlMs = 1500;
    const wrapper = run(
      ["killed", "--ttl", `${ttlMs}ms`],
      `echo $$ > ${file("killed")}; exec sleep 30`,
    );
    const pid = await pidOf("killed");
    const waiter = start(["run", "killed", "-q", "--wait", "20s", "--", "echo", "mine"], { env });
    process.kill(wrapper.pid, "SIGKILL");
    const killedMs = performance.now();
    await wrapper.ended;
    await until(() => !alive(pid), 10_000);
    expect((await waiter.ended).stdout).toBe("mine\n");
    expect(performance.now() - killedMs).toBeLessThan(ttlMs + 5000);
  });

  it("closes the descriptor that --watch-fd gave to the child", async () => {
    // A reader in a session of its own outlives the kernel's KILL to the child.
    const wrapper = run(
      ["watched", "--watch-fd", "7"],
      `setsid sh -c 'echo in; cat <&7; echo closed > ${file("watched")}' & wait`,
    );
    await until(() => wrapper.stdout() !== "");
    expect(read("watched")).toBe("");
    process.kill(wrapper.pid, "SIGKILL");
    await until(() => read("watched") === "closed\n");
  });
});
