import { describe, expect, it } from "vitest";
import { ManagerClosedError } from "../../src/index.ts";
import { rejection, World } from "../fixtures/world.ts";

describe("closing a manager", () => {
  it("waits for a release that is under way", async () => {
    const world = new World();
    const answered: string[] = [];
    const manager = world.manager({}, async (step, run) => {
      const answer = await run();
      if (step !== "release") return answer;
      await new Promise<void>((resolve) => world.clock.timer(200, resolve));
      answered.push(step);
      return answer;
    });
    const lease = await manager.acquire("a");
    void lease.release();
    await world.clock.settle(manager.close());
    expect(answered).toEqual(["release"]);
    expect(world.clock.pendingRefs).toBe(0);
  });

  it("gives back what an attempt that was under way brings, and runs no body with it", async () => {
    const world = new World();
    const manager = world.manager({}, async (step, run) => {
      if (step === "attempt") await new Promise<void>((resolve) => world.clock.timer(100, resolve));
      return await run();
    });
    const ran: string[] = [];
    const work = [
      rejection(manager.tryAcquire("a")),
      rejection(manager.request("b", { ifAvailable: true }, () => ran.push("request"))),
      rejection(manager.once("c", { keep: "1h" }, () => ran.push("once"))),
      rejection(manager.acquire("d", { wait: 0 })),
    ];
    await world.clock.settle(manager.close());
    for (const error of await Promise.all(work)) expect(error).toBeInstanceOf(ManagerClosedError);
    expect(ran).toEqual([]);
    for (const name of ["a", "b", "c", "d"])
      expect(await world.manager().tryAcquire(name)).not.toBeNull();
  });

  it("keeps the record of a run that ends while it waits", async () => {
    for (const retryOnError of [false, true]) {
      const world = new World();
      const manager = world.manager({}, async (step, run) => {
        if (step === "renew") await new Promise<void>((resolve) => world.clock.timer(20, resolve));
        return await run();
      });
      const running = manager.once(
        "nightly",
        { keep: "1h", retryOnError },
        async () => new Promise<void>((resolve) => world.clock.timer(100, resolve)),
      );
      await world.clock.drain();
      await world.clock.settle(manager.close());
      expect(await running).toMatchObject({ ran: true });
      await world.clock.advance(3_500_000);
      const other = world.manager();
      expect(await other.once("nightly", { keep: "1h" }, () => 1)).toMatchObject({ ran: false });
    }
  });
});
