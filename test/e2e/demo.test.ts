import { readdirSync } from "node:fs";
import { expect, it } from "vitest";
import { buildFirst, place, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env, folder } = place();
const own = { ...env, TMPDIR: folder, NODE_ENV: "production" };
const leftovers = () => readdirSync(folder).filter((name) => name.startsWith("ringfence-demo-"));

it("tells three endings, as the riders and the database make them", async () => {
  const { code, stdout, stderr, tookMs } = await ringfence(["demo"], {
    env: own,
    cwd: "/",
    stdio: ["ignore", "pipe", "pipe"],
  });
  expect([code, stderr]).toEqual([0, ""]);
  const [, first = "", second = "", third = ""] = stdout.split(/^\d\. /m);
  expect(first.match(/hands the parcel over +accepted/g)).toHaveLength(2);
  expect(second.match(/writes its line +accepted/g)).toHaveLength(2);
  expect(third).toMatch(/rider 1 {2}writes its line +REFUSED: claimed by \d+ since/);
  for (const arm of [first, second, third]) {
    const [one = "", two = ""] = [...arm.matchAll(/token (\d+)/g)].map(([, token]) => token);
    expect(BigInt(two)).toBeGreaterThan(BigInt(one));
    expect(arm.indexOf("is stopped (SIGSTOP)")).toBeLessThan(arm.indexOf("takes the order over"));
  }
  expect(tookMs).toBeLessThan(15_000);
  expect(leftovers()).toEqual([]);
});

it("leaves nothing behind when it is ended half-way", async () => {
  const demo = start(["demo"], { env: own });
  await until(() => demo.stdout().includes("is stopped (SIGSTOP)"));
  process.kill(demo.pid, "SIGTERM");
  expect((await demo.ended).code).toBe(143);
  expect(leftovers()).toEqual([]);
});
