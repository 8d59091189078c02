import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { command } from "../fixtures/command.ts";
import { buildFirst, place, ringfence, start, until } from "./ringfence.ts";

buildFirst();
const { env, file, read } = place();

// Loaded into every Node process below: a handler of the process writes down what nobody handled, and fails it.
writeFileSync(
  file("watch.mjs"),
  `import { appendFileSync } from "node:fs";
for (const event of ["unhandledRejection", "uncaughtException"])
  process.on(event, (error) => {
    appendFileSync(process.env.UNHANDLED_LOG, \`\${event}: \${error?.stack ?? error}\\n\`);
    process.exit(99);
  });
`,
);
const watched = {
  ...env,
  NODE_OPTIONS: `--import ${pathToFileURL(file("watch.mjs")).href}`,
  UNHANDLED_LOG: file("unhandled.log"),
};
const code = async (args: readonly string[]): Promise<number | null> =>
  (await ringfence(args, { env: watched })).code;

it("a rejection that nobody handles is written down, so that the next test means something", async () => {
  const log = file("planted.log");
  const planted = { ...watched, UNHANDLED_LOG: log };
  const script = ["-e", 'void Promise.reject(new Error("planted"));'];
  expect((await command(process.execPath, script, { env: planted })).code).toBe(99);
  expect(read("planted.log")).toContain("unhandledRejection: Error: planted");
});

it("no command leaves one, however it ends", async () => {
  const holder = start(["run", "x", "--", "sh", "-c", "echo in; exec sleep 300"], { env: watched });
  await until(() => holder.stdout() !== "");
  expect(
    await Promise.all([
      code(["run", "free", "--", "true"]),
      code(["run", "fails", "--", "sh", "-c", "exit 7"]),
      code(["run", "x", "-n", "--", "true"]),
      code(["run", "x", "--wait", "200ms", "--", "true"]),
      code(["run", "missing", "--", "/no/such/command"]),
      code(["run", "long", "--ttl", "2s", "--max-hold", "300ms", "--", "sleep", "30"]),
      code(["run", "once", "--once", "1h", "--", "true"]),
      code(["run", "x", "--store", `sqlite:${file("watch.mjs")}`, "--", "true"]),
      code(["run", "x", "--tll", "5s"]),
      code(["ls", "-o", "json"]),
      code(["inspect", "x", "-q"]),
      code(["nonsense"]),
    ]),
  ).toEqual([0, 7, 75, 75, 127, 79, 0, 78, 64, 0, 0, 64]);
  const waiter = start(["run", "x", "--", "true"], { env: watched });
  await until(() => waiter.stderr().includes("waiting for"));
  process.kill(waiter.pid, "SIGTERM");
  expect((await waiter.ended).code).toBe(143);
  expect(await code(["revoke", "x", "--reason", "test", "--yes"])).toBe(0);
  process.kill(holder.pid, "SIGTERM");
  expect([79, 143]).toContain((await holder.ended).code);
  expect(read("unhandled.log")).toBe("");
});
