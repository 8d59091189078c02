import { AcquireTimeoutError, BackendError } from "../../core/errors.ts";
import type { LeaseBase } from "../../core/lease.ts";
import type { CoreClient } from "../clients/core-client.ts";
import type { EvMode } from "../history.ts";
import type { ResourceServer } from "../servers/resource.ts";
import type { Site } from "../sim/choices.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";
import { section } from "../workloads/section.ts";
import type { Swarm } from "./swarm.ts";

/** What one line of work of a client needs. */
export interface LoopParts {
  readonly world: World;
  readonly process: SimProcess;
  readonly core: CoreClient;
  readonly resource: ResourceServer;
  readonly swarm: Swarm;
  readonly state: { sections: number; healed: boolean; readonly left: Set<string> };
  /** Of the client; a second line of work of one process has another. */
  readonly name: string;
}

const PERMITS = 2;

/** Works under locks until everything is healed and one more section is done. */
export async function clientLoop(parts: LoopParts): Promise<void> {
  const { world, swarm, state, name, process } = parts;
  const habits = world.choices.site(`client ${name}`);
  const others = new OtherCalls(parts);
  for (;;) {
    const began = state.healed;
    const outcome =
      !began && swarm.kinds && habits.among(3) > 0
        ? await others.one(habits)
        : await oneSection(parts, habits, began);
    if (outcome === "done") {
      state.sections += 1;
      if (began) {
        state.left.delete(name);
        return;
      }
    }
    await process.sleep(1 + swarm.ttlMs * 0.05 * habits.among(5));
  }
}

async function oneSection(
  { core, process, resource, swarm }: LoopParts,
  habits: Site,
  began: boolean,
): ReturnType<typeof section> {
  const { ttlMs } = swarm;
  const waits = [undefined, ttlMs * 0.3, ttlMs * 2];
  const works = [1, ttlMs * 0.1, ttlMs * 0.5, ttlMs * 1.3];
  const lock = `L${habits.among(swarm.locks)}`;
  const waitMs = began ? undefined : waits[habits.among(3)];
  return await section(process, core, resource, {
    lock,
    res: `R-${lock}`,
    terms: {
      ttlMs,
      renews: began || habits.among(4) > 0,
      lockDelayMs: ttlMs * (habits.among(4) === 3 ? 0.5 : 0),
      ...(waitMs === undefined ? {} : { waitMs }),
    },
    workMs: began ? 1 : (works[habits.among(works.length)] ?? 1),
    rounds: 1 + habits.among(2),
    heeds: habits.among(3) > 0,
    ...(habits.among(4) === 3 ? { renewMs: ttlMs * (habits.among(2) === 0 ? 3 : 0.6) } : {}),
  });
}

/** A lease of any mode; its token is looked at where it is exclusive. */
type AnyLease = LeaseBase & { readonly token?: bigint };

/** How a call asks: each name of it, in which mode, and the call itself. */
interface Asking {
  readonly names: readonly string[];
  readonly mode: EvMode;
  readonly call: () => Promise<readonly AnyLease[]>;
}

/** The calls of a manager besides plain sections: readers and writers, permits, one try, several names. */
class OtherCalls {
  readonly #parts: LoopParts;
  readonly #leases = new Map<string, { readonly lease: AnyLease; readonly facts: object }>();

  constructor(parts: LoopParts) {
    this.#parts = parts;
    const { core, process, world } = parts;
    core.manager.on("renewed", ({ grantId }) => {
      const held = this.#leases.get(grantId);
      if (held === undefined) return;
      const remainingMs = held.lease.remainingMs();
      world.probe.ev(process, "ok", "renew", { ...held.facts, remainingMs });
    });
    core.manager.on("lost", ({ grantId, reason }) => {
      const held = this.#leases.get(grantId);
      if (held === undefined) return;
      this.#leases.delete(grantId);
      world.probe.ev(process, "event", "lost", { ...held.facts, err: reason });
    });
  }

  async one(habits: Site): Promise<"done" | "busy"> {
    const { ttlMs } = this.#parts.swarm;
    const { manager } = this.#parts.core;
    const wait = habits.among(2) === 0 ? ttlMs * 0.5 : ttlMs * 2;
    const terms = {
      ttl: ttlMs,
      lockDelay: ttlMs * (habits.among(4) === 3 ? 0.5 : 0),
      keepalive: habits.among(3) > 0 ? ("auto" as const) : ("off" as const),
    };
    const several = (leases: { readonly leases: readonly LeaseBase[] }): readonly AnyLease[] =>
      leases.leases;
    const one = (lease: LeaseBase | null): readonly AnyLease[] => (lease === null ? [] : [lease]);
    const semaphore = manager.semaphore("P", { permits: PERMITS });
    const kinds: readonly Asking[] = [
      {
        names: ["L0"],
        mode: "shared",
        call: async () => one(await manager.acquire("L0", { ...terms, wait, mode: "shared" })),
      },
      {
        names: ["L0"],
        mode: "exclusive",
        call: async () => one(await manager.tryAcquire("L0", terms)),
      },
      {
        names: ["L0"],
        mode: "shared",
        call: async () => one(await manager.tryAcquire("L0", { ...terms, mode: "shared" })),
      },
      {
        names: ["P"],
        mode: "permits",
        call: async () => one(await semaphore.acquire({ ...terms, wait })),
      },
      { names: ["P"], mode: "permits", call: async () => one(await semaphore.tryAcquire(terms)) },
      {
        names: ["L0", "L1"],
        mode: "exclusive",
        call: async () => several(await manager.acquireAll(["L1", "L0"], { ...terms, wait })),
      },
    ];
    // What one line hands on to another that still waits for its second name is in no history yet.
    const kind = kinds[habits.among(kinds.length - (this.#parts.swarm.twofold ? 1 : 0))];
    if (kind === undefined) return "busy";
    return await this.#work(kind, [1, ttlMs * 0.2, ttlMs * 0.7][habits.among(3)] ?? 1);
  }

  async #work({ names, mode, call }: Asking, workMs: number): Promise<"done" | "busy"> {
    const { process, world, swarm } = this.#parts;
    const { probe } = world;
    const asked = names.map((lock) => {
      const permits = mode === "permits" ? { permits: PERMITS } : {};
      const facts = { op: probe.op(), lock, mode, ttlMs: swarm.ttlMs, ...permits };
      probe.ev(process, "invoke", "acquire", facts);
      return facts;
    });
    let leases: readonly AnyLease[];
    try {
      leases = await call();
    } catch (error) {
      const surely =
        error instanceof AcquireTimeoutError ||
        (error instanceof BackendError && error.outcome === "not-applied");
      // Of several names, the first ones may have been held for a while.
      const k = surely && names.length === 1 ? "fail" : "info";
      for (const facts of asked) probe.ev(process, k, "acquire", facts);
      return "busy";
    }
    for (const facts of asked) {
      const lease = leases.find(({ name }) => name === facts.lock);
      if (lease === undefined) probe.ev(process, "fail", "acquire", facts);
      else this.#began(lease, facts);
    }
    if (leases.length === 0) return "busy";
    await process.sleep(workMs);
    for (const lease of leases) await this.#end(lease);
    return "done";
  }

  #began(lease: AnyLease, asked: { readonly op: number; readonly lock: string }): void {
    const { process, world } = this.#parts;
    const { grantId: grant, token } = lease;
    const fenced = lease.mode === "exclusive" && token !== undefined ? { token } : {};
    const facts = { lock: asked.lock, grant, ...fenced };
    this.#leases.set(grant, { lease, facts });
    const remainingMs = lease.remainingMs();
    world.probe.ev(process, "ok", "acquire", { ...asked, ...facts, remainingMs });
  }

  async #end(lease: AnyLease): Promise<void> {
    const { process, world } = this.#parts;
    const { probe } = world;
    const { state, grantId: grant, name: lock, token } = lease;
    const fenced = lease.mode === "exclusive" && token !== undefined ? { token } : {};
    const facts = { lock, grant, ...fenced };
    const accepted = state === "held" || state === "jeopardy";
    probe.ev(process, "event", "held?", { ...facts, accepted });
    const op = probe.op();
    probe.ev(process, "invoke", "release", { op, ...facts });
    this.#leases.delete(grant);
    const outcome = await lease.release();
    const k = outcome === "released" ? "ok" : outcome === "already-lost" ? "fail" : "info";
    probe.ev(process, k, "release", { op, ...facts, err: outcome });
  }
}
