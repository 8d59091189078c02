import type { Claim } from "../../core/guard.ts";
import { decideClaim, decideVerify } from "../../core/guard-decision.ts";
import { LATE, within } from "../clients/within.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";

/** How a resource checks: not at all; by the articles' rule, the token on writes only; by claim and verify. */
export type GuardKind = "none" | "fence" | "claim";

/** Who acts, and under which grant. */
export interface Actor {
  readonly client: SimProcess;
  readonly lock: string;
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope: string;
}

/** No answer came in time: the step may or may not have been taken. */
export class UnansweredError extends Error {
  constructor(what: string) {
    super(`${what}: no answer`);
  }
}

interface Item {
  ver: number;
  fence: bigint;
  entry: Claim | null;
}

/**
 * The protected side: items with a version, read and written over the links. A write names the version that it is based
 * on; the resource does not look at it (that is what is to be shown), the checker does.
 */
export class ResourceServer {
  readonly #world: World;
  readonly name: string;
  readonly process: SimProcess;
  /** How long a client waits for an answer. */
  timeoutMs = 5000;
  readonly #guard: GuardKind;
  readonly #items = new Map<string, Item>();
  #versions = 0;

  constructor(world: World, name: string, guard: GuardKind) {
    this.#world = world;
    this.name = name;
    this.process = world.start(name);
    this.#guard = guard;
  }

  /** Installs the grant's pair; always true where the guard is another one. */
  async claim(who: Actor, res: string): Promise<boolean> {
    if (this.#guard !== "claim") return true;
    return await this.#call(who, "claim", res, (item) => {
      const accepted = this.#passes(() => {
        decideClaim(res, { entry: item.entry, floor: 0n }, claimOf(who));
      });
      if (accepted) item.entry = claimOf(who);
      return { result: accepted, facts: { accepted } };
    });
  }

  async read(who: Actor, res: string): Promise<number> {
    return await this.#call(who, "read", res, (item) => ({
      result: item.ver,
      facts: { ver: item.ver },
    }));
  }

  /** Writes a new version; `null` when it was refused. `path` names the code that writes; `by hand` passes every check. */
  async write(who: Actor, res: string, from: number, path = "job"): Promise<number | null> {
    return await this.#call(who, "write", res, (item) => {
      const accepted = path === "by hand" || this.#admits(who, res, item);
      if (!accepted) return { result: null, facts: { from, accepted, path } };
      this.#versions += 1;
      item.ver = this.#versions;
      return { result: item.ver, facts: { from, ver: item.ver, accepted, path } };
    });
  }

  /** The version that stands, for the end of a scenario. */
  version(res: string): number {
    return this.#items.get(res)?.ver ?? 0;
  }

  #admits(who: Actor, res: string, item: Item): boolean {
    if (this.#guard === "none") return true;
    if (this.#guard === "fence") {
      const token = who.token ?? 0n;
      if (token < item.fence) return false;
      item.fence = token;
      return true;
    }
    return this.#passes(() => {
      decideVerify(res, item.entry, claimOf(who));
    });
  }

  #passes(decide: () => void): boolean {
    try {
      decide();
      return true;
    } catch (error) {
      // Stale, or of another scope: anything else is a defect of the lab.
      if (error instanceof Error && "code" in error && String(error.code).startsWith("ERR_STALE"))
        return false;
      if (error instanceof Error && "code" in error && error.code === "ERR_GUARD_SCOPE")
        return false;
      throw error;
    }
  }

  async #call<T>(
    who: Actor,
    f: "claim" | "read" | "write",
    res: string,
    step: (item: Item) => {
      result: T;
      facts: { ver?: number; from?: number; accepted?: boolean; path?: string };
    },
  ): Promise<T> {
    const { probe, net } = this.#world;
    const { client, lock, grant, token } = who;
    const facts = { op: probe.op(), res, lock, grant, token };
    probe.ev(client, "invoke", f, facts);
    const calling = net.call(
      client,
      () => this.process,
      f,
      () => {
        let item = this.#items.get(res);
        if (item === undefined) {
          item = { ver: 0, fence: 0n, entry: null };
          this.#items.set(res, item);
        }
        const done = step(item);
        probe.ev(client, "event", f, { ...facts, ...done.facts });
        return done.result;
      },
    );
    const result = await within(client, this.timeoutMs, calling);
    if (result === LATE) {
      probe.ev(client, "info", f, facts);
      throw new UnansweredError(f);
    }
    probe.ev(client, result === null || result === false ? "fail" : "ok", f, facts);
    return result;
  }
}

function claimOf({ token = 0n, grant, scope }: Actor): Claim {
  return { token, grantId: grant, scope };
}
