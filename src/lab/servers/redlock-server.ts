import type { Driver } from "../../core/driver.ts";
import { redlockOver } from "../../drivers/redlock/driver.ts";
import type { LockServer } from "../../drivers/redlock/servers.ts";
import type { LabCapabilities } from "../clients/core-client.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import type { LockPlace } from "./place.ts";
import { emptyRedlockState, type RedlockState, runScript } from "./redlock-state.ts";

/** One of the independent servers of a Redlock, reached over the links. Tenures end by its own wall clock. */
export class RedlockServer {
  readonly name: string;
  process: SimProcess;
  readonly #world: World;
  #state: RedlockState = emptyRedlockState();

  constructor(world: World, name: string) {
    this.#world = world;
    this.name = name;
    this.process = world.start(name);
  }

  /** Dies, and starts again with what it kept, or with nothing. */
  restart(memory: "kept" | "lost"): void {
    this.#world.kill(this.name);
    this.process = this.#world.start(this.name);
    if (memory === "lost") this.#state = emptyRedlockState();
  }

  /** What a client's driver sends its scripts to. An answer that never comes is the driver's business. */
  reachedBy(client: SimProcess): LockServer {
    return {
      label: this.name,
      keyPrefix: "",
      runAll: async (calls) =>
        this.#world.net.call(
          client,
          () => this.process,
          calls[0]?.statement.name ?? "nothing",
          ({ machine }) => {
            const us = BigInt(Math.floor(machine.wall() * 1000));
            return calls.map((call) => ({ ok: true, value: runScript(this.#state, us, call) }));
          },
        ),
      send: async () => Promise.reject(new Error("the simulator has no commands but scripts")),
      close: async () => undefined,
    };
  }
}

/** The servers of one Redlock, and the production driver over them. */
export class RedlockPlace implements LockPlace {
  readonly name = "redlock";
  readonly servers: readonly RedlockServer[];
  readonly #world: World;
  readonly #quorum: number;

  constructor(world: World, servers: number, quorum: number) {
    this.#world = world;
    this.#quorum = quorum;
    this.servers = Array.from({ length: servers }, (_, i) => new RedlockServer(world, `S${i + 1}`));
  }

  startClient(name: string): SimProcess {
    return this.#world.start(name);
  }

  /** Its type says more modes than it has: scenarios use the one that all drivers share. */
  driverFor(client: SimProcess): Driver<LabCapabilities> {
    const reached = this.servers.map((server) => server.reachedBy(client));
    return redlockOver(() => reached, reached.length, {
      quorum: this.#quorum,
    }) as unknown as Driver<LabCapabilities>;
  }
}
