import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { systemClock } from "../../runtime/system-clock.ts";
import { type Program, pause, run, type ServerUser, START_MS } from "./server-process.ts";

/** Addresses that are nobody's anywhere: they are kept for examples. */
const SERVER = "192.0.2.1";
const CLIENT = "192.0.2.2";

/** A network of its own, of which nobody outside knows. */
export interface Host {
  readonly address: string;
  /** The same program in that network. */
  within(program: Program, user?: ServerUser): Program;
}

/**
 * Two hosts with a wire between them, each a network namespace of this run: what no proxy can play, a host that is gone
 * without FIN or RST, is a wire that is pulled. Nothing of it has a name or an address outside, so it ends with the
 * processes in it, whatever becomes of this one. It takes Linux, root, `unshare`, `nsenter` and `ip`.
 */
export class Hosts {
  readonly server: Host;
  readonly client: Host;
  readonly #holders: readonly ChildProcess[];

  private constructor(holders: readonly [ChildProcess, ChildProcess]) {
    this.#holders = holders;
    this.server = hostOf(holders[0], SERVER);
    this.client = hostOf(holders[1], CLIENT);
  }

  /** Two hosts, or why there can be none here. */
  static async open(): Promise<Hosts | string> {
    const holders = [holder(), holder()] as const;
    const hosts = new Hosts(holders);
    try {
      await Promise.all(holders.map(isApart));
      await hosts.#wire(holders);
      return hosts;
    } catch (error) {
      await hosts.close();
      return complaintOf(error);
    }
  }

  /** Pulls the wire: what either sends from now on is lost, and nobody is told. */
  unplug(): void {
    const { name, args } = this.client.within({
      name: "ip",
      args: ["link", "set", "wire", "down"],
    });
    // Whoever is killed after this must have no time to say so.
    execFileSync(name, args, { stdio: "pipe" });
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#holders.map(async (child) => {
        if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
        const gone = new Promise((resolve) => child.once("exit", resolve));
        child.kill("SIGKILL");
        await gone;
      }),
    );
  }

  async #wire([, client]: readonly [ChildProcess, ChildProcess]): Promise<void> {
    const peer = ["peer", "name", "wire", "netns", String(client.pid)];
    await runOn(this.server, ["ip", "link", "add", "wire", "type", "veth", ...peer]);
    for (const host of [this.server, this.client]) {
      await runOn(host, ["ip", "address", "add", `${host.address}/30`, "dev", "wire"]);
      await runOn(host, ["ip", "link", "set", "wire", "up"]);
    }
  }
}

/** Keeps a namespace open until its input ends, with this process at the latest. */
function holder(): ChildProcess {
  const child = spawn("unshare", ["--net", "cat"], { stdio: ["pipe", "ignore", "pipe"] });
  child.once("error", () => undefined);
  return child;
}

/** Resolves once a holder is in a network of its own. @throws Error when it does not get there */
async function isApart(child: ChildProcess): Promise<void> {
  let said = "";
  child.stderr?.on("data", (data: Buffer) => (said += data.toString()));
  const ours = networkOf("self");
  const until = systemClock.mono() + START_MS;
  while (child.pid === undefined || [ours, null].includes(networkOf(child.pid))) {
    if (child.pid === undefined || child.exitCode !== null || systemClock.mono() > until)
      throw new Error(said.trim() || "there is no unshare");
    await pause(5);
  }
}

/** Which network a process is in. */
function networkOf(pid: number | "self"): string | null {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return null;
  }
}

function hostOf({ pid }: ChildProcess, address: string): Host {
  return {
    address,
    within({ name, args }, { uid, gid } = {}) {
      const as = uid === undefined ? [] : [`--setuid=${uid}`, `--setgid=${gid ?? uid}`];
      return {
        name: "nsenter",
        args: [`--net=/proc/${String(pid)}/ns/net`, ...as, "--", name, ...args],
      };
    },
  };
}

async function runOn(host: Host, [name = "", ...args]: readonly string[]): Promise<void> {
  const program = host.within({ name, args });
  await run(program.name, program.args);
}

/** The first line of what a program said, or of the error. */
function complaintOf(error: unknown): string {
  const { stderr, message } = error as { readonly stderr?: string; readonly message: string };
  const said = stderr?.trim() ?? "";
  const [line = ""] = (said === "" ? message : said).split("\n");
  return line;
}
