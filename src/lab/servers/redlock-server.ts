import type { Driver } from "../../core/driver.ts";
import type { MemoryCapabilities } from "../../drivers/memory/index.ts";
import { redlockOver } from "../../drivers/redlock/driver.ts";
import type { LockServer } from "../../drivers/redlock/servers.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
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

/**
 * The production Redlock driver over these servers, for one client. Its type says more modes than it has: scenarios
 * use the one that all drivers share.
 */
export function redlockDriverFor(
  client: SimProcess,
  servers: readonly RedlockServer[],
  quorum: number,
): Driver<MemoryCapabilities> {
  return redlockOver(() => servers.map((server) => server.reachedBy(client)), servers.length, {
    quorum,
  }) as unknown as Driver<MemoryCapabilities>;
}
