// What only the tests need, and only `npm test` installs: Debian packages, and the npm packages of test/servers.
import { execFileSync } from "node:child_process";
import { accessSync, constants, existsSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { LOCK } from "./build.mjs";
import { cleanEnv, hashOf, must, npm, read, root, run, say } from "./host.mjs";
import { locked } from "./setup-lock.mjs";

/** The one list: package, a command that it brings, a service that its installation would start, and what needs it. */
const DEBIAN = [
  { name: "util-linux", command: "setpriv", why: "ends a child when its wrapper is killed" },
  {
    name: "redis-server",
    command: "redis-server",
    service: "redis-server",
    why: "the Redis driver, and the lab's model",
  },
  {
    name: "redis-sentinel",
    command: "redis-sentinel",
    service: "redis-sentinel",
    why: "failover of the Redis driver",
  },
  { name: "default-jre-headless", command: "java", why: "DynamoDB Local, of test/servers" },
  { name: "gcc", command: "gcc", why: "compiles the shim that moves a process's wall clock" },
  { name: "libc6-dev", command: "gcc", why: "the headers for it" },
  { name: "procps", command: "pgrep", why: "finds the processes of a server that a test crashes" },
  { name: "iproute2", command: "ip", why: "the networks that the lab makes for a lost host" },
  { name: "postgresql-15", command: "postgres", service: "postgresql", why: "PostgreSQL" },
  { name: "pgbouncer", command: "pgbouncer", service: "pgbouncer", why: "poolers of PostgreSQL" },
  { name: "mariadb-server", command: "mariadbd", service: "mariadb", why: "MySQL and MariaDB" },
];

const POLICY = "/usr/sbin/policy-rc.d";

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
    for (const { name, service } of missing) {
      say(`installing ${name} for the tests`);
      const words = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", name];
      // One line per package: apt's own words only when they are complaints.
      await run(words, { env, stdout: "ignore" });
      // Nor at the next boot: a service that only tests brought here is nobody's.
      if (service !== undefined)
        await run(["update-rc.d", service, "disable"], { env, stdout: "ignore" });
    }
  });
}

/** The npm packages of a folder with a lock file of its own, which no user of the package gets. */
export async function installNpm(folder, what) {
  if (!existsSync(join(root, folder, "package.json"))) return;
  const stamp = `${folder}/node_modules/.ringfence`;
  const want = () => {
    const lock = hashOf([`${folder}/package-lock.json`]);
    return `${lock} ${process.platform}-${process.arch} abi${process.versions.modules}`;
  };
  if (read(stamp) === want()) return;
  await locked(LOCK, async () => {
    if (read(stamp) === want()) return;
    say(`installing ${what} (once, about half a minute)`);
    const flags = ["--no-audit", "--no-fund", "--loglevel=error"];
    await must([...npm(), "ci", ...flags], { cwd: join(root, folder) });
    writeFileSync(join(root, stamp), want());
  });
}

/** Installs what is missing where we may, says the one line to type where we may not, and returns what is still missing. */
export async function prepareServers() {
  await installNpm("test/servers", "what only the tests need");
  const first = DEBIAN.filter((entry) => !isInstalled(entry));
  if (first.length === 0) return [];
  if (process.getuid?.() === 0 && existsSync("/usr/bin/apt-get"))
    await locked(LOCK, async () => installDebian(first));
  const missing = DEBIAN.filter((entry) => !isInstalled(entry)).map(({ name }) => name);
  if (missing.length > 0)
    say(`to run every test: apt-get install -y --no-install-recommends ${missing.join(" ")}`);
  return missing;
}
