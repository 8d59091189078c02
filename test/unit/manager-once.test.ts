import { describe, expect, it } from "vitest";
import { DriverError, LeaseLostError } from "../../src/index.ts";
import { rejection, World } from "../fixtures/world.ts";

async function later(world: World, ms: number): Promise<void> {
  await new Promise<void>((resolve) => world.clock.timer(ms, resolve));
}

describe("the record of a run", () => {
  it("is not taken for lost when the body ends just before `keep` does", async () => {
    for (const bodyMs of [970, 980, 990, 995, 999]) {
      const world = new World();
      const manager = world.manager();
      const lost: unknown[] = [];
      manager.on("lost", (event) => lost.push(event));
      const run = manager.once("n", { keep: "1s" }, async () => {
        await later(world, bodyMs);
        return bodyMs;
      });
      expect(await world.clock.settle(run)).toEqual({ ran: true, value: bodyMs });
      expect(lost).toEqual([]);
      await world.clock.advance(2000);
      expect(await world.manager().tryAcquire("n")).not.toBeNull();
    }
  });

  it("with `retryOnError` stays for `keep` although the last renewal has to be repeated", async () => {
    const world = new World();
    let failing = 0;
    const manager = world.manager({}, async (step, run) => {
      if (step === "renew" && failing > 0) {
        failing -= 1;
        throw new DriverError("unavailable", "unknown", "connection reset");
      }
      return await run();
    });
    const run = manager.once("n", { keep: "1h", retryOnError: true }, async () => {
      failing = 3;
      return 5;
    });
    expect(await world.clock.settle(run)).toEqual({ ran: true, value: 5 });
    await world.clock.advance(3_590_000);
    expect(await world.manager().once("n", { keep: "1h" }, () => 1)).toMatchObject({ ran: false });
  });

  it("with `retryOnError` is lost, and says so with the outcome, when it cannot be made to stay", async () => {
    const world = new World();
    let down = false;
    const manager = world.manager({}, async (step, run) => {
      if (step === "renew" && down) throw new DriverError("unavailable", "unknown", "down");
      return await run();
    });
    const error = await world.clock.settle(
      rejection(
        manager.once("n", { keep: "1h", retryOnError: true }, () => {
          down = true;
          return 5;
        }),
      ),
    );
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error).toMatchObject({ reason: "unreachable", outcome: { value: 5 } });
    expect(world.clock.pendingRefs).toBe(0);
  });

  it("stays also when the last renewal fails: it was made to last from the start", async () => {
    const world = new World();
    let down = false;
    const manager = world.manager({}, async (step, run) => {
      if (step === "renew" && down) throw new DriverError("unavailable", "unknown", "down");
      return await run();
    });
    const run = manager.once("n", { keep: "1h" }, async () => {
      await later(world, 5000);
      down = true;
      return 5;
    });
    expect(await world.clock.settle(run)).toEqual({ ran: true, value: 5 });
    await world.clock.advance(3_590_000);
    expect(await world.manager().once("n", { keep: "1h" }, () => 1)).toMatchObject({ ran: false });
  });
});
