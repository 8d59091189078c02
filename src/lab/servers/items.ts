import type { Adoption, Claim } from "../../core/guard.ts";
import { decideAdoption, decideClaim, decideVerify } from "../../core/guard-decision.ts";

/** How a resource checks: not at all; by the articles' rule, the token on writes only; by claim and verify. */
export type GuardKind = "none" | "fence" | "claim";

/** Under which grant somebody acts. */
export interface Acting {
  readonly grant: string;
  readonly token: bigint | undefined;
  readonly scope: string;
}

/** What a step came to, and what it leaves in the history. */
export interface Step<T> {
  readonly result: T;
  readonly facts: {
    readonly ver?: number;
    readonly from?: number;
    readonly accepted?: boolean;
    readonly path?: string;
  };
}

interface Item {
  ver: number;
  fence: bigint;
  entry: Claim | null;
}

/**
 * What is protected: items with a version. A write names the version that it is based on; nobody looks at it here (that
 * is what is to be shown), the checker does.
 */
export class Items {
  readonly #guard: GuardKind;
  readonly #items = new Map<string, Item>();
  #versions = 0;

  constructor(guard: GuardKind) {
    this.#guard = guard;
  }

  /** Whether a claim does anything here. */
  get claims(): boolean {
    return this.#guard === "claim";
  }

  /** Installs the grant's pair. */
  claim(who: Acting, res: string): Step<boolean> {
    const item = this.#at(res);
    const accepted = passes(() => {
      decideClaim(res, { entry: item.entry, floor: 0n }, claimOf(who));
    });
    if (accepted) item.entry = claimOf(who);
    return { result: accepted, facts: { accepted } };
  }

  /** Moves an item to another lock's scope. */
  adopt(res: string, adoption: Adoption): void {
    const item = this.#at(res);
    const move = decideAdoption(res, { entry: item.entry, floor: 0n }, adoption);
    if (move !== null) item.entry = move.entry;
  }

  read(res: string): Step<number> {
    const { ver } = this.#at(res);
    return { result: ver, facts: { ver } };
  }

  /** Writes a new version; `null` when it was refused. `path` names the code that writes; `by hand` passes every check. */
  write(who: Acting, res: string, from: number, path: string): Step<number | null> {
    const item = this.#at(res);
    const accepted = path === "by hand" || this.#admits(who, res, item);
    if (!accepted) return { result: null, facts: { from, accepted, path } };
    this.#versions += 1;
    item.ver = this.#versions;
    return { result: item.ver, facts: { from, ver: item.ver, accepted, path } };
  }

  version(res: string): number {
    return this.#items.get(res)?.ver ?? 0;
  }

  #at(res: string): Item {
    let item = this.#items.get(res);
    if (item === undefined) {
      item = { ver: 0, fence: 0n, entry: null };
      this.#items.set(res, item);
    }
    return item;
  }

  #admits(who: Acting, res: string, item: Item): boolean {
    if (this.#guard === "none") return true;
    if (this.#guard === "fence") {
      const token = who.token ?? 0n;
      if (token < item.fence) return false;
      item.fence = token;
      return true;
    }
    return passes(() => {
      decideVerify(res, item.entry, claimOf(who));
    });
  }
}

function passes(decide: () => void): boolean {
  try {
    decide();
    return true;
  } catch (error) {
    // Stale, or of another scope: anything else is a defect of the lab.
    if (error instanceof Error && "code" in error && String(error.code).startsWith("ERR_STALE"))
      return false;
    if (error instanceof Error && "code" in error && error.code === "ERR_GUARD_SCOPE") return false;
    throw error;
  }
}

function claimOf({ token = 0n, grant, scope }: Acting): Claim {
  return { token, grantId: grant, scope };
}
