import { describe, expect, it } from "vitest";
import { CoreClient } from "../../src/lab/clients/core-client.ts";
import { SqliteHost, type SqliteHostOptions } from "../../src/lab/servers/sqlite-host.ts";
import { sealed } from "../../src/lab/sim/sealed.ts";
import { World } from "../../src/lab/sim/world.ts";

const TTL_MS = 10_000;

/** Who got which token before the power went, and what the first one after it was told. */
interface Outcome {
  readonly before: readonly bigint[];
  readonly after: { token: bigint; takenOver: boolean; previousToken: bigint | null };
  readonly waitedMs: number;
  readonly lost: number;
}

interface Loss extends SqliteHostOptions {
  /** By how much the wall clock is off after the power is back. */
  readonly wallMs?: number;
  /** How many of the commits that were not synced are on the disk by chance. */
  readonly written?: number;
  readonly lies?: boolean;
  readonly survival?: "synced" | "nothing";
}

/** Three holders one after the other; the last still holds when the power goes. Then another one asks. */
async function powerLoss(loss: Loss): Promise<Outcome> {
  const { wallMs = 0, written = 0, lies = false, survival = "synced", ...options } = loss;
  return await sealed(async () => {
    const world = new World({ seed: 1 });
    const host = new SqliteHost(world, "F", options);
    host.file.lies = lies;
    const client = (name: string): CoreClient => {
      const process = host.startClient(name);
      return new CoreClient(world, process, host.driverFor(process));
    };
    const before: bigint[] = [];
    let outcome: Outcome | undefined;
    void (async () => {
      const a = client("A");
      for (let n = 0; n < 3; n += 1) {
        const lease = await a.manager.acquire("L", { ttl: TTL_MS, keepalive: "off" });
        before.push(lease.token);
        if (n < 2) await lease.release();
      }
      const lost = host.file.unsynced - written;
      host.powerOff(survival, { wallMs, written });
      const from = world.now;
      const after = await client("B").manager.acquire("L", { ttl: TTL_MS, wait: "forever" });
      const { token, takenOver, previousToken } = after;
      const waitedMs = world.now - from;
      outcome = { before, after: { token, takenOver, previousToken }, waitedMs, lost };
    })();
    await world.run(10 * TTL_MS);
    return outcome!;
  });
}

/** An hour: more than what any grant of a run is ahead of the wall clock. */
const BACK = -3_600_000;
const last = ({ before }: Outcome): bigint => before.at(-1)!;

describe("a power loss on the SQLite driver, durability normal", () => {
  it("takes the commits that no checkpoint followed, and tokens rise all the same", async () => {
    const outcome = await powerLoss({ durability: "normal" });
    expect(outcome.lost).toBeGreaterThan(0);
    expect(outcome.after.token).toBeGreaterThan(last(outcome));
  });

  it("gives a token that was given before where the wall clock went back as well", async () => {
    const outcome = await powerLoss({ durability: "normal", wallMs: BACK });
    expect(outcome.after.token).toBeLessThan(last(outcome));
  });

  it("may hide from the successor that its predecessor never released", async () => {
    const lost = await powerLoss({ durability: "normal" });
    expect(lost.after).toMatchObject({ takenOver: false, previousToken: null });
  });

  it("keeps a prefix of what was not synced: never a later commit without the one before it", async () => {
    const all = (await powerLoss({ durability: "normal" })).lost;
    const kept: (bigint | null)[] = [];
    for (let written = 0; written <= all; written += 1) {
      const { after, before } = await powerLoss({ durability: "normal", written });
      kept.push(after.previousToken);
      expect(after.token).toBeGreaterThan(before.at(-1)!);
    }
    const tokens = kept.map((token) => token ?? 0n);
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(4);
  });
});

describe("a power loss on the SQLite driver, durability full", () => {
  it("takes nothing that was answered: the successor knows its predecessor", async () => {
    const outcome = await powerLoss({ durability: "full" });
    expect(outcome.lost).toBe(0);
    expect(outcome.after).toMatchObject({ takenOver: true, previousToken: last(outcome) });
  });

  it("gives larger tokens also where the wall clock went back", async () => {
    const outcome = await powerLoss({ durability: "full", wallMs: BACK });
    expect(outcome.after.token).toBe(last(outcome) + 1n);
  });

  it("is as good as the disk: one that lies about a sync repeats tokens when the clock went back", async () => {
    const outcome = await powerLoss({ durability: "full", wallMs: BACK, lies: true });
    expect(outcome.after.token).toBeLessThan(last(outcome));
  });
});

describe("the boot after a power loss", () => {
  it.each(["normal", "full"] as const)(
    "voids all leases of a local file system (%s)",
    async (durability) => {
      const outcome = await powerLoss({ durability });
      expect(outcome.waitedMs).toBeLessThan(100);
    },
  );

  it("honours what is left of them where other hosts may see the file: until wall-clock end plus ttl", async () => {
    const outcome = await powerLoss({ durability: "full", sharing: "unknown" });
    expect(outcome.waitedMs).toBeGreaterThan(TTL_MS);
    expect(outcome.waitedMs).toBeLessThanOrEqual(2 * TTL_MS + 100);
    expect(outcome.after.token).toBeGreaterThan(last(outcome));
  });

  it("finds an empty disk as a new file: tokens rise by the wall clock alone", async () => {
    const forward = await powerLoss({ durability: "full", survival: "nothing" });
    expect(forward.after.token).toBeGreaterThan(last(forward));
    const back = await powerLoss({ durability: "full", survival: "nothing", wallMs: BACK });
    expect(back.after.token).toBeLessThan(last(back));
  });
});
