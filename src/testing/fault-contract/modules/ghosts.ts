import assert from "node:assert/strict";
import type { FaultModule } from "../fixture.ts";
import type { FaultWorld } from "../world.ts";

async function grantsNothing(world: FaultWorld, name: string, answer: unknown): Promise<void> {
  assert.notEqual((answer as { readonly kind: string }).kind, "granted");
  const { held, pending } = await world.record(name);
  assert.deepEqual({ held, pending }, { held: [], pending: [] });
}

/** Requests that arrive when nobody wants them any more. */
export const ghosts: FaultModule = {
  name: "late requests",
  excuse: () => null,
  promises: [
    {
      promise: "an ask that arrives after its grant was released grants nothing",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const late = one.link.catch("attempt", "held-request");
        const lease = await world.acquire(one, name);
        assert.equal(await lease.release(), "released");
        const next = await world.acquire(two, name);
        assert.equal(await next.release(), "released");
        await grantsNothing(world, name, await late.deliver());
      },
    },
    {
      promise: "an ask that arrives after its acquire was aborted grants nothing",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const one = await world.process();
        const late = one.link.catch("attempt", "held-request");
        const leaving = new AbortController();
        const acquiring = one.locks.acquire(name, { signal: leaving.signal });
        acquiring.catch(() => undefined);
        await world.until(() => late.isMade, 1000, "the ask is made");
        const reason = new Error("enough");
        leaving.abort(reason);
        assert.equal(await world.rejection(acquiring, world.lagMs + 1000, "the abort"), reason);
        await world.wait(world.lagMs / 10);
        await grantsNothing(world, name, await late.deliver());
        assert.equal(one.count("acquired"), 0);
      },
    },
    {
      promise: "an ask that arrives after its acquire timed out grants nothing",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const one = await world.process();
        const late = one.link.catch("attempt", "held-request");
        const again = one.link.catch("attempt", "held-request");
        const acquiring = one.locks.acquire(name, { wait: world.ttlMs / 2 });
        await world.rejection(acquiring, world.ttlMs, "the wait");
        await world.wait(world.lagMs / 10);
        await grantsNothing(world, name, await late.deliver());
        if (again.isMade) await grantsNothing(world, name, await again.deliver());
        assert.equal(one.count("acquired"), 0);
      },
    },
    {
      promise: "an ask that arrives after its try failed grants nothing",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const one = await world.process();
        const late = one.link.catch("attempt", "held-request");
        await world.rejection(one.locks.tryAcquire(name), world.ttlMs, "the try");
        await world.wait(world.lagMs / 10);
        await grantsNothing(world, name, await late.deliver());
      },
    },
    {
      promise: "a release that arrives late frees nobody else's lease",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        const lease = await world.acquire(one, name);
        const late = one.link.catch("release", "held-request");
        const outcome = await world.settle(lease.release(), world.ttlMs, "the release");
        assert.notEqual(outcome, "already-lost");
        const next = await world.acquire(two, name);
        await late.deliver();
        assert.equal((await world.record(name)).held[0]?.grantId, next.grantId);
        assert.equal(await next.release(), "released");
      },
    },
    {
      promise: "a renewal that arrives after the lease lapsed brings nothing back",
      async run(world: FaultWorld): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.process(), await world.process()];
        await world.acquire(one, name);
        const late = one.link.catch("renew", "held-request");
        await world.until(() => late.isMade, world.ttlMs, "the renewal is made");
        await world.crash(one);
        const next = await world.acquire(two, name);
        await next.release();
        const [renewal] = (await late.deliver()) as readonly { readonly kind: string }[];
        assert.notEqual(renewal?.kind, "renewed");
        const { held } = await world.record(name);
        assert.deepEqual(held, []);
      },
    },
  ],
};
