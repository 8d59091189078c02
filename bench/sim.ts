import { CoreClient } from "../src/lab/clients/core-client.ts";
import { runCore } from "../src/lab/explore/core-run.ts";
import { swarmOf } from "../src/lab/explore/swarm.ts";
import { TableServer } from "../src/lab/servers/table.ts";
import { randomChoices } from "../src/lab/sim/choices.ts";
import { sealed } from "../src/lab/sim/sealed.ts";
import { World } from "../src/lab/sim/world.ts";

/** How fast the world goes: five contending clients with a ttl of 10 s, and whole schedules under faults. */
const HOURS = 30;

async function contention(): Promise<void> {
  const world = new World({
    seed: 1,
    // Nobody will want to replay thirty hours.
    choices: randomChoices(1, false),
    weather: { delaysMs: [1, 3, 6], weights: [1, 1, 1], lose: 0.01, repeat: 0 },
  });
  const table = new TableServer(world, "S");
  let sections = 0;
  for (const name of ["A", "B", "C", "D", "E"]) {
    const process = world.start(name);
    const client = new CoreClient(world, process, table.driverFor(process));
    void (async () => {
      for (;;) {
        const held = await client.acquire("L", { ttlMs: 10_000, renews: true });
        if (held === null) continue;
        await process.sleep(2000 + 10_000 * process.random.unit());
        await held.release();
        sections += 1;
        await process.sleep(10);
      }
    })();
  }
  const started = process.cpuUsage().user;
  await world.run(HOURS * 3_600_000);
  const seconds = (process.cpuUsage().user - started) / 1e6;
  const { count } = world.scheduler;
  console.log(
    `five clients, ttl 10 s: ${(HOURS / seconds).toFixed(1)} simulated hours per CPU second, ` +
      `${(count / seconds / 1000).toFixed(0)} k events/s (${sections} sections, ${count} events)`,
  );
}

async function schedules(): Promise<void> {
  const started = process.cpuUsage().user;
  let events = 0;
  const runs = 200;
  for (let seed = 1; seed <= runs; seed += 1)
    events += (await sealed(async () => runCore({ seed, swarm: swarmOf(seed) }))).events;
  const seconds = (process.cpuUsage().user - started) / 1e6;
  console.log(
    `schedules of the core under faults: ${(runs / seconds).toFixed(0)} per CPU second, ` +
      `${(events / runs).toFixed(0)} events each`,
  );
}

await sealed(contention);
await schedules();
