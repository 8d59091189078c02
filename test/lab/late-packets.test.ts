import { expect, it } from "vitest";
import type { Ask, Io } from "../../src/core/driver.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { World } from "../../src/lab/sim/world.ts";

const io: Io = { timeoutMs: 1000, signal: new AbortController().signal };

// Found by the lab (core under a lossy network): an acquire that was answered only after it was asked again arrives a
// third time, or late, after its holder renewed for longer. It set the expiry back, and somebody else was granted the
// name while the holder still had a deadline.
it.each(["attempt", "renew"] as const)(
  "a late %s with a shorter ttl does not end a lease before the deadline that its holder was given",
  async (late) => {
    const world = new World({ seed: 1 });
    const { clock, random, host } = world.start("S");
    const context = { clock, random, host, namespace: "n", notify: () => undefined };
    const backend = await memoryDriver().open(context);
    const ask = (grantId: string): Ask => ({
      name: "a",
      mode: "exclusive",
      permits: 1,
      grantId,
      holder: "",
      ttlMs: 1000,
      lockDelayMs: 0,
      tokens: 1,
      join: "no",
    });
    const ref = { name: "a", mode: "exclusive", grantId: "A", lockDelayMs: 0 } as const;
    await backend.attempt(ask("A"), io);
    await backend.renew([{ ...ref, ttlMs: 10_000 }], io);
    await world.run(100);
    if (late === "attempt") await backend.attempt(ask("A"), io);
    else await backend.renew([{ ...ref, ttlMs: 1000 }], io);
    await world.run(9000);
    expect((await backend.attempt(ask("B"), io)).kind).toBe("busy");
    await world.run(10_001);
    expect((await backend.attempt(ask("B"), io)).kind).toBe("granted");
  },
);
