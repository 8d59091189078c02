import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { type SqliteCapabilities, sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import {
  createLockManager,
  DriverError,
  GuardScopeError,
  InvalidArgumentError,
  LeaseLostError,
  LeaseReleasedError,
  type LockManager,
  ManagerClosedError,
  type ManagerOptions,
  UnsupportedError,
} from "../../src/index.ts";
import { intercepted } from "../fixtures/intercepted.ts";
import { rejection } from "../fixtures/world.ts";

const folder = mkdtempSync(join(tmpdir(), "ringfence-transfer-"));
const path = join(folder, "locks.db");
const managers: { close(): Promise<void> }[] = [];
afterAll(async () => {
  await Promise.all(managers.map(async (manager) => manager.close()));
  rmSync(folder, { recursive: true, force: true });
});

function manager(options: ManagerOptions<never> = {}): LockManager<SqliteCapabilities> {
  const made = createLockManager(sqliteDriver(path), options);
  managers.push(made);
  return made;
}

describe("a lease that is handed to another process (B11)", () => {
  it("ends here and goes on there, with a larger token, renewed by its new holder only", async () => {
    const [from, to] = [manager(), manager({ holder: { label: "worker" } })];
    const lease = await from.acquire("a");
    const { signal } = lease;
    const exported = await lease.export();
    expect(lease.state).toBe("exported");
    expect(signal.aborted).toBe(false);
    expect(await rejection(lease.renew())).toBeInstanceOf(LeaseReleasedError);
    expect(await lease.release()).toBe("already-lost");
    const resumed = await to.resume(exported);
    expect(resumed.state).toBe("held");
    expect(resumed.grantId).not.toBe(lease.grantId);
    expect(resumed.token).toBeGreaterThan(lease.token);
    expect(await from.inspect("a")).toMatchObject({
      holder: { label: "worker" },
      held: [{ grantId: resumed.grantId }],
    });
    await resumed.renew();
    expect(await resumed.release()).toBe("released");
    expect((await from.inspect("a")).held).toEqual([]);
  });

  it("is resumed once: a redelivered message finds it taken (S49)", async () => {
    const [from, to] = [manager(), manager()];
    const exported = await (await from.acquire("b")).export();
    await to.resume(exported);
    const again = await rejection(manager().resume(exported));
    expect(again).toBeInstanceOf(LeaseLostError);
    expect(again).toMatchObject({ reason: "taken", lock: "b" });
  });

  it("survives a lost reply to the exchange: the same grant is asked for again", async () => {
    const from = manager();
    const exported = await (await from.acquire("c")).export();
    let lose = 1;
    const driver = intercepted(sqliteDriver(path), async (step, run) => {
      const answer = await run();
      if (step === "exchange" && lose > 0) {
        lose -= 1;
        throw new DriverError("timeout", "unknown", "the reply was lost");
      }
      return answer;
    });
    const to = createLockManager(driver);
    managers.push(to);
    expect((await to.resume(exported)).state).toBe("held");
  });

  it("is shown by nothing but the export: a sequencer or a grant id resumes nothing", async () => {
    const from = manager();
    const lease = await from.acquire("d");
    const { sequencer, grantId } = lease;
    for (const forged of [
      sequencer,
      grantId,
      "",
      "{}",
      `["rfx1","d","${grantId}","x",1000,0,null]`,
      "x".repeat(10_000),
    ])
      expect(await rejection(manager().resume(forged))).toBeInstanceOf(InvalidArgumentError);
    const exported = await lease.export();
    expect(exported).not.toContain(grantId);
    expect(await rejection(manager({ namespace: "other" }).resume(exported))).toBeInstanceOf(
      GuardScopeError,
    );
  });
});

describe("a resume whose replies are all lost", () => {
  it("leaves no lease of nobody's, and says that its outcome is unknown", async () => {
    const [from, free] = [manager(), manager()];
    const exported = await (await from.acquire("lost", { ttl: "60s" })).export();
    const driver = intercepted(sqliteDriver(path), async (step, run) => {
      const answer = await run();
      if (step === "exchange") throw new DriverError("timeout", "unknown", "the reply was lost");
      return answer;
    });
    const to = createLockManager(driver);
    expect(await rejection(to.resume(exported))).toMatchObject({ outcome: "unknown" });
    await to.close();
    expect(await free.tryAcquire("lost")).not.toBeNull();
  });

  it("gives back what it brings to a manager that was closed meanwhile", async () => {
    const [from, free] = [manager(), manager()];
    const exported = await (await from.acquire("closed", { ttl: "60s" })).export();
    let answer: (() => void) | undefined;
    const driver = intercepted(sqliteDriver(path), async (step, run) => {
      if (step === "exchange") await new Promise<void>((resolve) => (answer = resolve));
      return await run();
    });
    const to = createLockManager(driver);
    const resuming = rejection(to.resume(exported));
    await vi.waitFor(() => {
      expect(answer).toBeDefined();
    });
    const closing = to.close();
    await new Promise<void>((resolve) => setImmediate(resolve));
    answer?.();
    expect(await resuming).toBeInstanceOf(ManagerClosedError);
    await closing;
    expect(await free.tryAcquire("closed")).not.toBeNull();
  });
});

describe("a lease that others share", () => {
  it("cannot be handed over: whoever resumed it would believe to hold it alone", async () => {
    const [from, other] = [manager(), manager()];
    const shared = await from.acquire("shared", { mode: "shared" });
    await other.acquire("shared", { mode: "shared" });
    expect(await rejection(shared.export())).toBeInstanceOf(UnsupportedError);
    expect(shared.state).toBe("held");
    const permit = await from.semaphore("permits", { permits: 2 }).acquire();
    expect(await rejection(permit.export())).toBeInstanceOf(UnsupportedError);
  });
});
