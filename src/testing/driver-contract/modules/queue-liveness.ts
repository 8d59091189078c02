import assert from "node:assert/strict";
import {
  anyOf,
  type ContractModule,
  type DriverFixture,
  nobodyCounts,
  noQueue,
  noTtl,
} from "../fixture.ts";
import { pair, type World } from "../world.ts";

/** Real tests wait no longer than this for a waiter to be counted as dead. */
const PATIENCE_MS = 4000;

/** The longest offer. */
const OFFER_MS = 3000;
/** Waiters before the last one, and how much later than the one before it each may ask. */
const AHEAD = 5;
const NEXT_ASK_MS = 50;

/** Entries that are numbered when they come in cannot be passed over and keep their place. */
function numbered({ declares }: DriverFixture): string | null {
  return declares.mints === "at-enqueue" ? 'mints is "at-enqueue"' : null;
}

/** In real time a test waits only for a silence that the fixture says to be short. */
function impatient({ time, keepEntryMs = Infinity }: DriverFixture): string | null {
  if (time === "fake" || keepEntryMs <= PATIENCE_MS) return null;
  return keepEntryMs === Infinity
    ? "time is real, and the fixture names no `keepEntryMs`"
    : `time is real, and a silent waiter counts for ${keepEntryMs} ms`;
}

/** What the driver says must fit what the fixture promised, or the test would wait for minutes. */
function heardInTime({ fixture, fake }: World, keepEntryMs: number): void {
  const promised = fixture.keepEntryMs ?? Infinity;
  assert.ok(
    fake !== null || keepEntryMs <= promised,
    `expected an entry to be kept for ${promised} ms at most, as the fixture says, got ${keepEntryMs} ms`,
  );
}

/** Nobody who stopped holds up the others. */
export const queueLiveness: ContractModule = {
  name: "queue liveness",
  excuse: noQueue,
  promises: [
    {
      promise: "the oldest waiter gets in after the holder vanished, without any wake-up",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, waiter] = await pair(world);
        const held = await lost.hold(name, { ttlMs: world.shortMs });
        const waiting = await waiter.queue(name, { ttlMs: world.shortMs });
        if (world.fixture.declares.liveness === "session") await world.vanish(lost, held);
        await waiter.takesOver({ ...waiting, join: "kept" }, world.takeoverMs(held));
      },
    },
    {
      promise: "a head that does not come is passed over, without its lock-delay",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, dead] = await pair(world);
        const next = await world.party();
        const held = await holder.hold(name);
        const terms = { ttlMs: world.shortMs, lockDelayMs: 60_000 };
        await dead.queue(name, terms);
        const waiting = await next.queue(name, terms);
        await holder.gives(held);
        await next.takesOver({ ...waiting, join: "kept" }, world.shortMs + 2 * world.lagMs);
      },
    },
    {
      promise: "while an offer runs, even the last one in line is told to come back soon after it",
      excuse: anyOf(noTtl, numbered),
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, last] = await pair(world);
        const held = await holder.hold(name);
        for (let i = 0; i < AHEAD; i += 1) await (await world.party()).queue(name);
        const waiting = await last.queue(name);
        await holder.gives(held);
        const told = await last.busy({ ...waiting, join: "kept" });
        assert.equal(told.blockedBy, "queue");
        const latest = OFFER_MS + AHEAD * NEXT_ASK_MS;
        assert.ok(
          told.askAgainMs <= latest,
          `expected to ask again within ${latest} ms, got ${told.askAgainMs} ms`,
        );
      },
    },
    {
      promise: "holder and head may vanish together: the next one still gets in",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        const name = world.name();
        const [lost, dead] = await pair(world);
        const next = await world.party();
        const terms = { ttlMs: world.shortMs };
        const held = await lost.hold(name, terms);
        await dead.queue(name, terms);
        const waiting = await next.queue(name, terms);
        await next.takesOver({ ...waiting, join: "kept" }, world.takeoverMs(held, 1));
      },
    },
    {
      promise: "an offer keeps others out until its waiter had time to come",
      excuse: noTtl,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [holder, head] = await pair(world);
          const late = await world.party();
          const held = await holder.hold(name);
          const waiting = await head.queue(name, { ttlMs: world.shortMs });
          const offerMs = Math.min(world.shortMs, 3000);
          valid(offerMs);
          await holder.gives(held);
          await world.wait(offerMs / 2);
          await late.busy(late.ask(name));
          await head.granted({ ...waiting, join: "kept" });
        });
      },
    },
    {
      promise: "a waiter's ttl runs from when it came in, however long it waited",
      excuse: nobodyCounts,
      async run(world: World): Promise<void> {
        await world.steady(async (valid) => {
          const name = world.name();
          const [holder, waiter] = await pair(world);
          const terms = { ttlMs: world.shortMs };
          const held = await holder.hold(name);
          const waiting = await waiter.queue(name, terms);
          await world.wait(world.shortMs * 0.6);
          await waiter.busy({ ...waiting, join: "kept" });
          const offerMs = Math.min(world.shortMs, 3000);
          valid(offerMs);
          await holder.gives(held);
          await world.wait(offerMs * 0.4);
          const sentAt = world.clock.mono();
          await waiter.granted({ ...waiting, join: "kept" });
          valid(world.shortMs, sentAt);
          await world.wait(world.shortMs * 0.8);
          await holder.busy(holder.ask(name));
        });
      },
    },
    {
      promise: "a waiter that was silent too long is passed over, and gets no second entry",
      excuse: anyOf(noTtl, numbered, impatient),
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, silent] = await pair(world);
        const next = await world.party();
        const held = await holder.hold(name);
        const one = await silent.queue(name);
        const two = await next.queue(name);
        const { keepEntryMs } = one.told;
        heardInTime(world, keepEntryMs);
        assert.ok(Number.isFinite(keepEntryMs), "expected an entry to be kept for some time only");
        for (let i = 0; i < 4; i += 1) {
          await world.wait((keepEntryMs + world.lagMs) / 4);
          await next.busy({ ...two, join: "kept" });
        }
        const { waiters } = await holder.inspect(name);
        assert.deepEqual(
          waiters.map(({ grantId }) => grantId),
          [two.grantId],
        );
        await holder.gives(held);
        await next.granted({ ...two, join: "kept" });
        // It comes back to its old place or to none.
        const back = await silent.attempt({ ...one, join: "kept" });
        assert.ok(back.kind === "busy" || back.kind === "vanished", back.kind);
      },
    },
    {
      promise:
        "a waiter that was silent and comes back stands where it stood, or is told to start anew",
      excuse: anyOf(noTtl, numbered, impatient),
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, silent] = await pair(world);
        const next = await world.party();
        const held = await holder.hold(name);
        const one = await silent.queue(name);
        const two = await next.queue(name);
        const { keepEntryMs } = one.told;
        heardInTime(world, keepEntryMs);
        for (let i = 0; i < 4; i += 1) {
          await world.wait((keepEntryMs + world.lagMs) / 4);
          await next.busy({ ...two, join: "kept" });
        }
        const back = await silent.attempt({ ...one, join: "kept" });
        await holder.gives(held);
        const second = await next.attempt({ ...two, join: "kept" });
        assert.equal(second.kind, back.kind === "vanished" ? "granted" : "busy");
        if (back.kind !== "vanished") await silent.granted({ ...one, join: "kept" });
      },
    },
    {
      promise: "a renewed entry stays in the queue and does not become a lease",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [holder, waiter] = await pair(world);
        const held = await holder.hold(name);
        const waiting = await waiter.queue(name);
        const [renewal] = await waiter.renew(waiting);
        assert.equal(renewal?.kind, "renewed");
        const record = await holder.inspect(name);
        assert.deepEqual(
          record.holders.map(({ grantId }) => grantId),
          [held.grantId],
        );
        assert.equal(record.waiters.length, 1);
      },
    },
  ],
};
