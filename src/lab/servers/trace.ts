import type { Answer, Ask, GrantRef, Notice, Release, Renewal } from "../../core/driver.ts";
import type { Facts } from "../sim/probe.ts";
import type { SimProcess } from "../sim/process.ts";
import type { World } from "../sim/world.ts";

interface LiveGrant {
  readonly lock: string;
  readonly token: bigint | undefined;
  /** Server's monotonic clock. */
  expiresAt: number;
}

/** Writes a lock server's own steps into the history: grants, renewals, releases, and expiries at the moment they happen. */
export class ServerTrace {
  readonly #world: World;
  readonly #server: () => SimProcess;
  readonly #live = new Map<string, LiveGrant>();
  readonly #seen = new Set<string>();
  readonly #queued = new Map<string, string>();

  constructor(world: World, server: () => SimProcess) {
    this.#world = world;
    this.#server = server;
  }

  attempted(ask: Ask, answer: Answer): void {
    const { name: lock, grantId: grant, ttlMs } = ask;
    if (answer.kind === "busy" && answer.queued && !this.#queued.has(grant)) {
      this.#queued.set(grant, lock);
      this.#tell("enqueue", { lock, grant });
    }
    if (answer.kind !== "granted") return;
    this.#queued.delete(grant);
    const known = this.#live.get(grant);
    // Over at this very moment, before its own event said so: what was granted now is another lease.
    if (known !== undefined && known.expiresAt <= this.#now()) this.#expire(grant, known);
    else if (known !== undefined) {
      known.expiresAt = Math.max(known.expiresAt, this.#now() + ttlMs);
      this.#tell("srv.renew", { lock, grant, token: known.token, ttlMs });
      return;
    }
    // A second delivery of an acquire whose lease has lapsed makes a grant that nobody knows of, under the same id and
    // another token. Its renewals are not the first one's.
    const token = this.#seen.has(grant) ? undefined : answer.tokens?.first;
    this.#seen.add(grant);
    // Of a block the holder's process may be using any: the server does not know which.
    const alone = (answer.tokens?.count ?? 1) > 1 ? undefined : token;
    this.#live.set(grant, { lock, token: alone, expiresAt: this.#now() + ttlMs });
    this.#tell("srv.grant", {
      lock,
      grant,
      token,
      ttlMs,
      lockDelayMs: ask.lockDelayMs,
      mode: ask.mode,
      permits: ask.permits,
    });
    this.#watch(grant);
  }

  renewed(grants: readonly GrantRef[], renewals: readonly Renewal[]): void {
    grants.forEach(({ grantId: grant, name: lock, ttlMs }, i) => {
      const known = this.#live.get(grant);
      if (renewals[i]?.kind !== "renewed" || known === undefined) return;
      known.expiresAt = Math.max(known.expiresAt, this.#now() + ttlMs);
      this.#tell("srv.renew", { lock, grant, token: known.token, ttlMs });
    });
  }

  released(grants: readonly GrantRef[], releases: readonly Release[]): void {
    grants.forEach(({ grantId, name }, i) => {
      if (releases[i]?.kind === "released") this.#end(grantId, name);
    });
  }

  revoked(order: { readonly name: string; readonly grantId: string }, release: Release): void {
    if (release.kind === "released") this.#end(order.grantId, order.name);
  }

  /** An entry of the queue is gone without a grant. */
  left(grant: string, lock: string): void {
    if (this.#queued.delete(grant)) this.#tell("leave", { lock, grant });
  }

  notice(notice: Notice): void {
    if (notice.kind !== "wake") return;
    const lock = this.#queued.get(notice.grantId);
    if (lock !== undefined) this.#tell("wakeup", { lock, grant: notice.grantId });
  }

  /** The server lost its memory, or some of it: every lease that it does not know any more is over. */
  forget(kept: (lock: string, grant: string) => boolean = () => false): void {
    for (const [grant, { lock, token }] of this.#live) {
      if (kept(lock, grant)) continue;
      this.#tell("srv.expire", { lock, grant, token });
      this.#live.delete(grant);
    }
    for (const [grant, lock] of this.#queued) if (!kept(lock, grant)) this.#queued.delete(grant);
  }

  /** The machine has lost its power: whoever held something is dead, and what was held is free. */
  voidAll(): void {
    for (const [grant, { lock }] of this.#live) this.#tell("revoke", { lock, grant });
    this.forget();
  }

  #end(grant: string, lock: string): void {
    this.left(grant, lock);
    const known = this.#live.get(grant);
    if (!this.#live.delete(grant)) return;
    this.#tell("srv.release", { lock, grant, token: known?.token });
  }

  #watch(grant: string): void {
    if (this.#world.probe.history === null) return;
    const known = this.#live.get(grant);
    if (known === undefined) return;
    const { machine } = this.#server();
    if (machine.mono() < known.expiresAt)
      this.#world.scheduler.at(
        machine.timeOf(known.expiresAt),
        () => {
          this.#watch(grant);
        },
        false,
      );
    else this.#expire(grant, known);
  }

  #expire(grant: string, { lock, token }: LiveGrant): void {
    this.#live.delete(grant);
    this.#tell("srv.expire", { lock, grant, token });
  }

  #now(): number {
    return this.#server().machine.mono();
  }

  #tell(
    f:
      | "enqueue"
      | "wakeup"
      | "leave"
      | "revoke"
      | `srv.${"grant" | "renew" | "release" | "expire"}`,
    facts: Facts,
  ): void {
    this.#world.probe.ev(this.#server(), "event", f, facts);
  }
}
