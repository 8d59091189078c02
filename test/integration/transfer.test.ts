import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type SqliteCapabilities, sqliteDriver } from "../../src/drivers/sqlite/index.ts";
import {
  createLockManager,
  DriverError,
  GuardScopeError,
  InvalidArgumentError,
  LeaseLostError,
  LeaseReleasedError,
  type LockManager,
  type ManagerOptions,
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

function manager(
  options: Parameters<typeof createLockManager>[1] = {},
): ReturnType<typeof createLockManager> {
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
