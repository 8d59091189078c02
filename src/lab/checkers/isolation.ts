import type { Ev } from "../history.ts";
import { ConflictGraph } from "./conflict-graph.ts";
import { type Checker, checker, Judge } from "./verdict.ts";
import { at, name, who } from "./words.ts";
import { deleteOldest, type World } from "./world.ts";

/**
 * P4. Critical sections are serialised: each accepted write is based on the version that the last accepted write left, or
 * follows a write of its own grant; and over all resources of one lock there is an order of the grants that explains what
 * each of them read and wrote.
 */
class Isolation extends Judge {
  readonly #last = new Map<string, Ev>();
  readonly #reads = new Map<string, Ev>();
  readonly #graphs = new Map<string, ConflictGraph>();

  step(event: Ev, world: World): void {
    const { f, res, grant } = event;
    if (!world.lands || res === undefined) return;
    const lock = event.lock ?? world.lease?.lock;
    if (f === "read") {
      if (grant === undefined) return;
      this.#reads.set(`${grant} ${res}`, event);
      if (this.#reads.size > this.limit) deleteOldest(this.#reads);
      if (lock === undefined) return;
      const counts = world.lease?.mode === "shared";
      this.#tell(this.#graph(lock).read(event, grant, res, counts), lock, world);
    } else if (f === "write" && event.accepted === true) {
      this.judged += 1;
      const lost = this.#version(event, res, world);
      const cycle =
        lock === undefined || grant === undefined
          ? undefined
          : this.#graph(lock).write(event, grant, res);
      // A lost update is a cycle as well: it is told once, in the plainer words.
      if (lock !== undefined && !lost) this.#tell(cycle, lock, world);
    }
  }

  /** Whether this write overwrote one that it did not see. */
  #version(event: Ev, res: string, world: World): boolean {
    const last = this.#last.get(res);
    this.#last.set(res, event);
    if (last === undefined || event.from === undefined || last.ver === undefined) return false;
    if (event.from === last.ver) return false;
    if (event.grant !== undefined && event.grant === last.grant) return false;
    const read = this.#reads.get(`${event.grant ?? ""} ${res}`);
    const saw =
      read?.ver === event.from
        ? `${who(event)} read v${event.from} of ${name(res)} at ${at(read.t, world.origin)}`
        : `${who(event)} based its write to ${name(res)} on v${event.from}`;
    this.violated(
      `${saw}; ${who(last)} wrote v${last.ver} at ${at(last.t, world.origin)}, accepted; ${event.p} wrote v${event.ver ?? "?"} based on v${event.from} at ${at(event.t, world.origin)}, accepted: the update v${last.ver} is lost.`,
      [read, last, event],
    );
    return true;
  }

  #graph(lock: string): ConflictGraph {
    let graph = this.#graphs.get(lock);
    if (graph === undefined) {
      graph = new ConflictGraph();
      this.#graphs.set(lock, graph);
      if (this.#graphs.size > this.limit) deleteOldest(this.#graphs);
    }
    return graph;
  }

  #tell(cycle: readonly Ev[] | undefined, lock: string, world: World): void {
    if (cycle === undefined) return;
    const parts = [...new Set(cycle)]
      .sort((a, b) => a.i - b.i)
      .slice(0, 6)
      .map(
        (event) =>
          `${who(event)} ${event.f === "read" ? "read" : "wrote"} ${name(event.res)} at ${at(event.t, world.origin)}`,
      );
    this.violated(
      `No order of the grants of ${name(lock)} explains what they saw: ${parts.join("; ")}.`,
      cycle,
    );
  }
}

export const isolation: Checker = checker(
  {
    id: "P4",
    title: "critical sections are isolated: no update is lost, none is torn",
    cost: "O(1) per event; O(64²) where accesses of grants conflict",
  },
  (...facts) => new Isolation(...facts),
);
