import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { command } from "../fixtures/command.ts";
import { OTHER_NODES, otherNode } from "../fixtures/other-node.ts";
import { buildFirst, MAIN, place, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env } = place();

describe.each(OTHER_NODES)("on Node %s", (major) => {
  const node = otherNode(major);
  it.skipIf(node === null)("says nothing of its own on stderr", async () => {
    const ended = await command(node ?? "", [MAIN, "run", "other", "--", "sh", "-c", "exit 4"], {
      env,
    });
    expect(ended).toMatchObject({ code: 4, stdout: "", stderr: "" });
  });
});

/** A container's view: the command is the first process of a pid namespace of its own. */
const NAMESPACE = ["--pid", "--fork", "--mount-proc", "--kill-child"];
const canUnshare = spawnSync("unshare", [...NAMESPACE, "true"]).status === 0;
const first = async (node: string, script: string, started?: (pid: number) => void) =>
  command("unshare", [...NAMESPACE, node, MAIN, "run", "first", "--", "sh", "-c", script], {
    env,
    started: (child) => {
      if (started === undefined) return;
      child.stdout?.once("data", () => {
        started(child.pid ?? 0);
      });
    },
  });

describe.runIf(canUnshare)("as the first process of a container", () => {
  it("passes signals on, and the child's code back", async () => {
    const script = "trap 'echo got; exit 6' TERM; echo in; while :; do sleep 0.05; done";
    const ended = await first(process.execPath, script, (pid) => {
      const inside = spawnSync("cat", [`/proc/${pid}/task/${pid}/children`], { encoding: "utf8" });
      process.kill(Number(inside.stdout), "SIGTERM");
    });
    expect(ended).toMatchObject({ code: 6, stdout: "in\ngot\n" });
  });

  for (const major of OTHER_NODES) {
    const node = otherNode(major);
    it.skipIf(node === null)(`reaps orphans on Node ${major}`, async () => {
      const script = `(sleep 0.05 &); (sleep 0.05 &); sleep 0.5; grep -l '^State:.Z' /proc/[0-9]*/status; exit 9`;
      expect(await first(node ?? "", script)).toMatchObject({ code: 9, stdout: "", stderr: "" });
    });
  }
});

/** Another time namespace on the same kernel: its monotonic clock is an hour ahead. */
const AN_HOUR_AHEAD = ["--time", "--monotonic", "3600", "--boottime", "3600"];
const canShiftTime = spawnSync("unshare", [...AN_HOUR_AHEAD, "true"]).status === 0;

it.runIf(canShiftTime)(
  "a run whose clock is an hour ahead is refused, and takes nobody's lock for expired (S53)",
  async () => {
    const holder = start(["run", "clocks", "--", "sh", "-c", "echo in; read line"], {
      env,
      hold: true,
    });
    await until(() => holder.stdout() !== "");
    const words = ["run", "clocks", "-n", "--", "echo", "never"];
    const stranger = await command(
      "unshare",
      [...AN_HOUR_AHEAD, process.execPath, MAIN, ...words],
      {
        env,
      },
    );
    expect(stranger).toMatchObject({ code: 78, stdout: "" });
    expect(stranger.stderr).toContain("another time namespace");
    expect((await ringfence(["run", "clocks", "-n", "--", "true"], { env })).code).toBe(75);
    holder.child.stdin?.end("go on\n");
    expect((await holder.ended).code).toBe(0);
  },
);
