import { expect, it } from "vitest";
import { size } from "../fixtures/soak.ts";
import { buildFirst, place, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env } = place();

it("a job that never lets go of its CPU keeps its lock for longer than the ttl: ringfence renews beside it (B67)", async () => {
  const spinMs = size(3500, 10_000);
  const script = `
    require("node:fs").writeSync(1, "in\\n");
    for (const end = performance.now() + ${spinMs}; performance.now() < end; );`;
  const words = ["run", "busy", "--ttl", "2s", "--grace", "200ms", "--", process.execPath];
  const job = start([...words, "-e", script], { env });
  await until(() => job.stdout() !== "");
  const runs = (): boolean => job.child.exitCode === null;
  const codes: (number | null)[] = [];
  while (runs()) {
    const { code } = await ringfence(["run", "busy", "-n", "--", "true"], { env });
    if (runs()) codes.push(code);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  expect(await job.ended).toMatchObject({ code: 0, stdout: "in\n", stderr: "" });
  expect(new Set(codes)).toEqual(new Set([75]));
  expect((await ringfence(["run", "busy", "-n", "--", "true"], { env })).code).toBe(0);
}, 120_000);
