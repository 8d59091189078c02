import assert from "node:assert/strict";
import type { ContractModule } from "../fixture.ts";
import type { World } from "../world.ts";

/** What a driver says about itself, and the life of a backend. */
export const declaration: ContractModule = {
  name: "declaration",
  excuse: () => null,
  promises: [
    {
      promise: "declares what its fixture says",
      async run(world: World): Promise<void> {
        const { driver } = world;
        const { declares } = world.fixture;
        const words = ["fencing", "waiting", "liveness", "clock", "mints", "transfer", "retains"];
        for (const word of words as (keyof typeof declares)[])
          assert.equal(driver[word], declares[word], word);
        assert.deepEqual([...driver.modes].sort(), [...declares.modes].sort());
        assert.deepEqual(driver.ttl, declares.ttl);
        assert.match(driver.name, /^[a-z][a-z0-9-]*$/);
      },
    },
    {
      promise: "has `exchange` exactly where it declares a transfer",
      async run(world: World): Promise<void> {
        const { backend } = await world.party();
        assert.equal(backend.exchange !== undefined, world.driver.transfer !== "no");
      },
    },
    {
      promise: "probes its backend and refuses nothing of what the fixture set up",
      async run(world: World): Promise<void> {
        const { backend } = await world.party();
        const findings = await backend.probe({
          timeoutMs: 30_000,
          signal: new AbortController().signal,
        });
        assert.deepEqual(
          findings.filter(({ verdict }) => verdict === "refuse"),
          [],
        );
      },
    },
    {
      promise: "closes twice without complaint",
      async run(world: World): Promise<void> {
        const { backend } = await world.party();
        await backend.close();
        await backend.close();
      },
    },
  ],
};
