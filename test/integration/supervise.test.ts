import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type ChildPlan, supervise, type WatchedLease } from "../../src/cli/supervise.ts";
import { LeaseLostError } from "../../src/core/errors.ts";
import { findSetpriv } from "../../src/runtime/setpriv.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";

const folder = mkdtempSync(join(tmpdir(), "ringfence-supervise-"));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A lease that a test ends when it likes. */
class FakeLease implements WatchedLease {
  readonly #controller = new AbortController();
  deadlineMs: number;
  constructor(ttlMs: number) {
    this.deadlineMs = systemClock.mono() + ttlMs;
  }
  get signal(): AbortSignal {
    return this.#controller.signal;
  }
  get state(): "held" | "lost" {
    return this.signal.aborted || this.remainingMs() === 0 ? "lost" : "held";
  }
  remainingMs(): number {
    return Math.max(0, this.deadlineMs - systemClock.mono());
  }
  lose(reason: "revoked"): void {
    this.#controller.abort(new LeaseLostError("x", reason, null));
  }
}

const deaf = { handTo: () => undefined, ignore: () => undefined };
/** A reserve far above the real one: other tests run at the same time, and timers come late. */
const grace = { graceMs: 300, leadMs: 1300 };

async function underLease(
  script: string,
  lease: WatchedLease,
  plan: Partial<ChildPlan> = {},
  terms = grace,
) {
  const lost: string[] = [];
  const startedMs = systemClock.mono();
  const end = await supervise(
    {
      command: "sh",
      args: ["-c", script],
      env: process.env,
      onTerminal: false,
      setpriv: findSetpriv(),
      maxHoldMs: undefined,
      watchFd: undefined,
      ...plan,
    },
    lease,
    terms,
    { clock: systemClock, signals: deaf, onLost: (why) => lost.push(why) },
  );
  return { end, lost, tookMs: systemClock.mono() - startedMs };
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie answers too; it runs no more.
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

async function pidIn(file: string): Promise<number> {
  for (;;) {
    const text = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
    if (text !== "") return Number(text);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

it("passes a child's code and signal on while the lease holds", async () => {
  const long = new FakeLease(60_000);
  expect((await underLease("exit 7", long)).end).toEqual({
    kind: "ended",
    code: 7,
    signal: null,
    lost: null,
  });
  expect((await underLease("kill -9 $$", long)).end).toMatchObject({
    code: null,
    signal: "SIGKILL",
    lost: null,
  });
});

it("ends a child before the deadline of a lease that is not renewed", async () => {
  const lease = new FakeLease(1700);
  const { end, lost } = await underLease("sleep 30", lease);
  expect(end).toMatchObject({ kind: "ended", signal: "SIGTERM" });
  expect(lost).toHaveLength(1);
  expect(lease.remainingMs()).toBeGreaterThan(0);
});

it("kills a child that ignores TERM, before the lease's deadline", async () => {
  const lease = new FakeLease(1700);
  const { end } = await underLease("trap '' TERM; while :; do sleep 0.05; done", lease);
  expect(end).toMatchObject({ kind: "ended", signal: "SIGKILL" });
  expect(end).toHaveProperty("lost", expect.stringContaining("could not be renewed"));
  expect(lease.remainingMs()).toBeGreaterThan(0);
});

it("follows a deadline that renewals move", async () => {
  const lease = new FakeLease(500);
  const renewals = setInterval(() => {
    lease.deadlineMs = systemClock.mono() + 500;
  }, 50);
  const { end } = await underLease("sleep 1; exit 3", lease, {}, { graceMs: 100, leadMs: 150 });
  clearInterval(renewals);
  expect(end).toMatchObject({ code: 3, lost: null });
});

it("ends a child at once when the lease is revoked, and says so", async () => {
  const lease = new FakeLease(60_000);
  setTimeout(() => {
    lease.lose("revoked");
  }, 100);
  const { end, tookMs } = await underLease("sleep 30", lease);
  expect(end).toHaveProperty("lost", expect.stringContaining("revoked"));
  expect(tookMs).toBeLessThan(20_000);
});

it("ends a child that runs longer than it may, however well its lease is renewed", async () => {
  const { end, tookMs } = await underLease("sleep 30", new FakeLease(60_000), { maxHoldMs: 200 });
  expect(end).toMatchObject({ signal: "SIGTERM" });
  expect(end).toHaveProperty("lost", expect.stringContaining("--max-hold"));
  expect(tookMs).toBeGreaterThan(195);
});

it("calls a lease lost whose deadline passed unseen, however well the child ended", async () => {
  const lease = new FakeLease(60_000);
  setTimeout(() => {
    lease.deadlineMs = 0;
  }, 50);
  const { end } = await underLease("sleep 0.3; exit 0", lease);
  expect(end).toHaveProperty("lost", expect.any(String));
});

it("ends what a child left in its group when the lease is lost", async () => {
  const file = join(folder, "grandchild");
  const lease = new FakeLease(1700);
  const { end } = await underLease(
    `(trap '' TERM; sh -c 'echo $$ > ${file}; while :; do sleep 0.05; done') & wait`,
    lease,
  );
  expect(end).toMatchObject({ signal: "SIGTERM" });
  expect(alive(await pidIn(file))).toBe(false);
});

it("lets a grandchild live on when the child ends by itself", async () => {
  const file = join(folder, "daemon");
  const { end, tookMs } = await underLease(
    `sh -c 'echo $$ > ${file}; exec sleep 30' & exit 4`,
    new FakeLease(60_000),
  );
  const pid = await pidIn(file);
  expect(end).toMatchObject({ code: 4, lost: null });
  expect(tookMs).toBeLessThan(20_000);
  expect(alive(pid)).toBe(true);
  process.kill(pid, "SIGKILL");
});

it("finds descendants of a child that shares our process group", async () => {
  const file = join(folder, "descendant");
  const lease = new FakeLease(60_000);
  void pidIn(file).then(() => {
    lease.lose("revoked");
  });
  const { end } = await underLease(`sh -c 'echo $$ > ${file}; exec sleep 30' & wait`, lease, {
    onTerminal: true,
  });
  expect(end).toHaveProperty("lost", expect.stringContaining("revoked"));
  const pid = await pidIn(file);
  await expect.poll(() => alive(pid)).toBe(false);
});

it("wakes a stopped child to end it", async () => {
  const lease = new FakeLease(1700);
  const { end } = await underLease("kill -STOP $$; sleep 30", lease);
  expect(end).toMatchObject({ signal: "SIGTERM" });
});

it("says why a child could not be started", async () => {
  const plan = { command: join(folder, "nowhere"), args: [], setpriv: null };
  const { end } = await underLease("", new FakeLease(60_000), plan);
  expect(end).toMatchObject({ kind: "not-started", error: { code: "ENOENT" } });
});

it("closes the child's watched descriptor when its wrapper is killed", async () => {
  const source = new URL("../../src/cli/supervise.ts", import.meta.url).href;
  const file = join(folder, "watched");
  const script = `
    const { supervise } = await import(${JSON.stringify(source)});
    const lease = { state: "held", signal: new AbortController().signal, remainingMs: () => 60_000 };
    const clock = { mono: () => performance.now(), timer: () => ({ cancel() {} }) };
    void supervise(
      { command: "sh", args: ["-c", "cat <&5; echo closed > ${file}"], env: process.env,
        onTerminal: false, setpriv: null, watchFd: 5 },
      lease, { graceMs: 1, leadMs: 1 },
      { clock, signals: { handTo() {}, ignore() {} }, onLost() {} });
    console.log("started");`;
  const program = join(folder, "wrapper.mts");
  writeFileSync(program, script);
  const tsx = join(import.meta.dirname, "../../node_modules/tsx/dist/cli.mjs");
  const wrapper = spawn(process.execPath, [tsx, program], {
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  await new Promise((resolve) => wrapper.stdout.once("data", resolve));
  expect(existsSync(file)).toBe(false);
  process.kill(-(wrapper.pid ?? 0), "SIGKILL");
  await expect.poll(() => existsSync(file)).toBe(true);
});
