// What only the tests need, and only `npm test` installs: Debian packages, and the npm packages of test/servers.
import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { LOCK } from "./build.mjs";
import { cleanEnv, hashOf, must, npm, read, root, run, say } from "./host.mjs";
import { locked } from "./setup-lock.mjs";

/** The one list: package, a command that it brings, and what needs it. */
const DEBIAN = [
  { name: "util-linux", command: "setpriv", why: "ends a child when its wrapper is killed" },
  { name: "redis-server", command: "redis-server", why: "the Redis driver, and the lab's model" },
  { name: "redis-sentinel", command: "redis-sentinel", why: "failover of the Redis driver" },
  { name: "default-jre-headless", command: "java", why: "DynamoDB Local, of test/servers" },
  { name: "gcc", command: "gcc", why: "compiles the shim that moves a process's wall clock" },
  { name: "libc6-dev", command: "gcc", why: "the headers for it" },
];

const POLICY = "/usr/sbin/policy-rc.d";
const FOLDER = join(root, "test/servers");
const STAMP = "test/servers/node_modules/.ringfence";

function onPath(command) {
  const folders = `${process.env.PATH ?? ""}${delimiter}/usr/sbin${delimiter}/sbin`;
  return folders.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function isInstalled({ name, command }) {
  if (!existsSync("/usr/bin/dpkg-query")) return onPath(command);
  try {
    const format = "--showformat=${db:Status-Status}";
    const stdio = ["ignore", "pipe", "ignore"];
    return (
      execFileSync("dpkg-query", ["--show", format, name], { stdio }).toString() === "installed"
    );
  } catch {
    return false;
  }
}

/** Debian starts what it installs; tests start their own servers, on ports and in folders of their own. */
async function withoutStartingServices(work) {
  const ours = !existsSync(POLICY);
  if (ours) writeFileSync(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    await work();
  } finally {
    if (ours) rmSync(POLICY, { force: true });
  }
}

async function installDebian(missing) {
  const env = { ...cleanEnv(), DEBIAN_FRONTEND: "noninteractive" };
  await run(["apt-get", "update", "-qq"], { env });
  await withoutStartingServices(async () => {
    for (const { name } of missing) {
      say(`installing ${name} for the tests`);
      const words = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", name];
      // One line per package: apt's own words only when they are complaints.
      await run(words, { env, stdout: "ignore" });
    }
  });
}

async function installNpm() {
  if (!existsSync(join(FOLDER, "package.json"))) return;
  const want = () => {
    const lock = hashOf(["test/servers/package-lock.json"]);
    return `${lock} ${process.platform}-${process.arch} abi${process.versions.modules}`;
  };
  if (read(STAMP) === want()) return;
  await locked(LOCK, async () => {
    if (read(STAMP) === want()) return;
    say("installing what only the tests need (once, about half a minute)");
    const flags = ["--no-audit", "--no-fund", "--loglevel=error"];
    await must([...npm(), "ci", ...flags], { cwd: FOLDER });
    writeFileSync(join(root, STAMP), want());
  });
}

/** Installs what is missing where we may, says the one line to type where we may not, and returns what is still missing. */
export async function prepareServers() {
  await installNpm();
  const first = DEBIAN.filter((entry) => !isInstalled(entry));
  if (first.length === 0) return [];
  if (process.getuid?.() === 0 && existsSync("/usr/bin/apt-get"))
    await locked(LOCK, async () => installDebian(first));
  const missing = DEBIAN.filter((entry) => !isInstalled(entry)).map(({ name }) => name);
  if (missing.length > 0)
    say(`to run every test: apt-get install -y --no-install-recommends ${missing.join(" ")}`);
  return missing;
}
