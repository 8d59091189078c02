import assert from "node:assert/strict";
import type { ContractModule } from "../fixture.ts";
import type { Party, World } from "../world.ts";

/** Locks of different namespaces on one store never meet. */
export const namespaces: ContractModule = {
  name: "namespaces",
  excuse: () => null,
  promises: [
    {
      promise: "one name in two namespaces is two locks",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [here, there] = await apart(world);
        await here.hold(name);
        const other = await there.hold(name);
        await here.busy(here.ask(name));
        await there.gives(other);
        await here.busy(here.ask(name));
        assert.deepEqual((await there.list()).names, []);
        assert.deepEqual((await here.list()).names, [name]);
      },
    },
    {
      promise: "a grant cannot be renewed, released or revoked from another namespace",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [here, there] = await apart(world);
        const held = await here.hold(name);
        assert.equal((await there.renew(held))[0]?.kind, "gone");
        assert.equal((await there.release(held))[0]?.kind, "gone");
        assert.equal((await there.revoke(name, held.grantId, true)).kind, "gone");
        assert.equal((await here.renew(held))[0]?.kind, "renewed");
      },
    },
    {
      promise: "namespace and name cannot be put together in two ways",
      async run(world: World): Promise<void> {
        const base = world.namespace;
        const spellings = [
          [base, "x:y"],
          [`${base}:x`, "y"],
          [`${base}/x`, "y"],
          [base, "x/y"],
          [`${base}%2Fx`, "y"],
          [`${base}{x}`, "y"],
        ] as const;
        for (const [namespace, name] of spellings) {
          const party = await world.party(namespace);
          await party.hold(name);
        }
      },
    },
    {
      promise: "two processes with the same namespace do contend",
      async run(world: World): Promise<void> {
        const name = world.name();
        const [one, two] = [await world.party(), await world.party()];
        await one.hold(name);
        await two.busy(two.ask(name));
      },
    },
  ],
};

async function apart(world: World): Promise<[Party, Party]> {
  return [await world.party(), await world.party(`${world.namespace}-other`)];
}
