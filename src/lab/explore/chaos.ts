import type { Site } from "../sim/choices.ts";
import type { World } from "../sim/world.ts";
import type { FaultKind, Swarm } from "./swarm.ts";

/** What the faults of a run act on. */
export interface Targets {
  /** Names of client processes. */
  readonly clients: readonly string[];
  /** Names of lock servers. */
  readonly servers: readonly string[];
  /** Starts a killed client's successor. */
  restart(client: string): void;
  restartServer(server: string, memory: "kept" | "lost"): void;
  /** Takes the power from the host that all clients share. */
  powerOff(): void;
}

/** Asks the choices every so often whether something goes wrong, to whom, and for how long. */
export class Chaos {
  readonly #world: World;
  readonly #swarm: Swarm;
  readonly #targets: Targets;
  readonly #kinds: readonly FaultKind[];
  readonly #weights: readonly number[];
  readonly #site: Site;
  readonly #whom: Site;
  readonly #howLong: Site;
  readonly #lengthsMs: readonly number[];
  #over = false;
  /** Faults that happened. */
  count = 0;

  constructor(world: World, swarm: Swarm, targets: Targets) {
    this.#world = world;
    this.#swarm = swarm;
    this.#targets = targets;
    this.#kinds = Object.keys(swarm.faults) as FaultKind[];
    this.#weights = [1, ...this.#kinds.map((kind) => swarm.faults[kind] ?? 0)];
    this.#site = world.choices.site("fault");
    this.#whom = world.choices.site("fault whom");
    this.#howLong = world.choices.site("fault length");
    this.#lengthsMs = [0.1, 0.5, 1.1, 2].map((share) => swarm.ttlMs * share);
    if (this.#kinds.length > 0) this.#plan();
  }

  end(): void {
    this.#over = true;
  }

  #plan(): void {
    this.#world.scheduler.after(this.#swarm.everyMs, () => {
      if (this.#over) return;
      const kind = this.#kinds[this.#site.pick(this.#weights) - 1];
      if (kind !== undefined) this.#strike(kind);
      this.#plan();
    });
  }

  #one(names: readonly string[]): string | undefined {
    return names[names.length === 1 ? 0 : this.#whom.among(names.length)];
  }

  #lengthMs(): number {
    return this.#lengthsMs[this.#howLong.among(this.#lengthsMs.length)] ?? 0;
  }

  #later(ms: number, undo: () => void): void {
    this.#world.scheduler.after(ms, () => {
      if (!this.#over) undo();
    });
  }

  #strike(kind: FaultKind): void {
    const world = this.#world;
    const client = this.#one(this.#targets.clients);
    const server = this.#one(this.#targets.servers);
    if (client === undefined || server === undefined) return;
    const ms = this.#lengthMs();
    this.count += 1;
    switch (kind) {
      case "pause":
      case "server pause": {
        const whom = kind === "pause" ? client : server;
        const { incarnation } = world.process(whom);
        world.pause(whom);
        this.#later(ms, () => {
          if (world.process(whom).incarnation === incarnation) world.resume(whom);
        });
        return;
      }
      case "kill":
        world.kill(client);
        this.#later(ms, () => {
          if (!world.process(client).alive) this.#targets.restart(client);
        });
        return;
      case "cut":
      case "cut one way": {
        const [from, to] = this.#howLong.among(2) === 0 ? [client, server] : [server, client];
        world.cut(
          from,
          to,
          this.#howLong.among(2) === 0 ? "stall" : "lose",
          kind === "cut one way",
        );
        this.#later(ms, () => {
          world.net.link(from, to).heal();
          world.net.link(to, from).heal();
        });
        return;
      }
      case "suspend": {
        if (world.process(client).machine.sleeps) return;
        world.suspend(client);
        this.#later(ms, () => {
          world.unsuspend(client);
        });
        return;
      }
      case "step client":
      case "step server": {
        const whom = kind === "step client" ? client : server;
        // A wall clock that was set back by what a sleep took hides that sleep from a holder: docs/lab.md, "Limits".
        // After a power loss tokens rise by the wall clock alone.
        const { suspend, "power loss": powerLoss } = this.#swarm.faults;
        const forward =
          this.#howLong.among(2) === 0 || suspend !== undefined || powerLoss !== undefined;
        world.step(whom, forward ? ms : -ms);
        return;
      }
      case "power loss":
        this.#targets.powerOff();
        return;
      case "drift":
        // Within the margin that the protocol allows: 1 %.
        world.drift(client, this.#howLong.among(2) === 0 ? 0.996 : 1.004);
        return;
      case "server restart":
      case "server forgets":
        this.#targets.restartServer(server, kind === "server forgets" ? "lost" : "kept");
    }
  }
}
