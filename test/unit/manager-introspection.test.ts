import { describe, expect, it } from "vitest";
import { GuardScopeError } from "../../src/index.ts";
import { rejection, World } from "../fixtures/world.ts";

describe("check, events, and what is seen of a lock", () => {
  it("says whether a sequencer's grant still stands", async () => {
    const world = new World();
    const manager = world.manager();
    const lease = await manager.acquire("a");
    expect(await manager.check(lease.sequencer)).toBe("current");
    expect(await world.manager().check(lease.sequencer)).toBe("current");
    const next = manager.acquire("a");
    await lease.release();
    const second = await next;
    expect(await manager.check(lease.sequencer)).toBe("superseded");
    expect(await manager.check(second.sequencer)).toBe("current");
    expect(
      await rejection(world.manager({ namespace: "other" }).check(lease.sequencer)),
    ).toBeInstanceOf(GuardScopeError);
  });

  it("says `same-tenure` for a lease that was handed on inside its process", async () => {
    const world = new World();
    const manager = world.manager();
    const blocker = await world.manager().acquire("a");
    const [first, second] = [manager.acquire("a"), manager.acquire("a")];
    await world.clock.advance(10);
    await blocker.release();
    const one = await first;
    await one.release();
    const two = await second;
    expect(two.grantId).toBe(one.grantId);
    expect(await manager.check(one.sequencer)).toBe("same-tenure");
    expect(await manager.check(two.sequencer)).toBe("current");
    expect(await world.manager().check(one.sequencer)).toBe("same-tenure");
  });

  it("tells each event once, and a listener that throws changes nothing", async () => {
    const world = new World();
    const manager = world.manager();
    const told: string[] = [];
    for (const event of ["requested", "acquired", "released", "refused"] as const)
      manager.on(event, () => {
        told.push(event);
        throw new Error("a listener's own fault");
      });
    const stop = manager.on("acquired", () => told.push("second"));
    const lease = await manager.acquire("a");
    stop();
    await manager.tryAcquire("a");
    await lease.release();
    expect(told).toEqual(["requested", "acquired", "second", "requested", "refused", "released"]);
  });

  it("lists what is held and waited for, by prefix and limit", async () => {
    const world = new World();
    const manager = world.manager({ holder: { label: "me" } });
    for (const name of ["b/2", "a", "b/1"]) await manager.acquire(name);
    void rejection(world.manager({ holder: { label: "you" } }).acquire("a"));
    await world.clock.advance(1);
    const all = await manager.query();
    expect(all.held.map(({ name }) => name)).toEqual(["a", "b/1", "b/2"]);
    expect(all.pending).toMatchObject([{ name: "a", holder: { label: "you" } }]);
    expect((await manager.query({ prefix: "b/" })).held).toHaveLength(2);
    expect(await manager.query({ limit: 2 })).toMatchObject({
      truncated: true,
      held: [{ name: "a" }, { name: "b/1" }],
    });
    expect(await manager.inspect("a")).toMatchObject({
      mode: "exclusive",
      holder: { label: "me" },
      pending: [{ holder: { label: "you" } }],
    });
    expect(await manager.inspect("free")).toMatchObject({
      mode: null,
      held: [],
      holder: null,
      token: null,
    });
  });

  it("revokes one grant and no other", async () => {
    const world = new World();
    const manager = world.manager({ holder: { label: "old" } });
    const revoked: unknown[] = [];
    const operator = world.manager();
    operator.on("revoked", (event) => revoked.push(event.reason));
    const lease = await manager.acquire("a");
    expect(await operator.revoke("a", { reason: "stuck", grantId: "x".repeat(27) })).toEqual({
      revoked: null,
    });
    expect(await operator.revoke("a", { reason: "stuck", grantId: lease.grantId })).toMatchObject({
      revoked: { label: "old" },
    });
    expect(await operator.revoke("a", { reason: "stuck", grantId: lease.grantId })).toEqual({
      revoked: null,
    });
    expect(revoked).toEqual(["stuck"]);
    await manager.acquire("s", { mode: "shared" });
    expect(await rejection(operator.revoke("s", { reason: "x" }))).toMatchObject({
      code: "ERR_INVALID_ARGUMENT",
    });
  });
});
