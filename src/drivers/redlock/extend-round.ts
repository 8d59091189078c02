import type { DriverError } from "../../core/driver.ts";
import { type GoneReason, type GrantRef, type Renewal } from "../../core/driver.ts";
import type { Outcome } from "../redis/client.ts";
import type { Call } from "../redis/connection.ts";
import { asRedisError } from "../redis/errors.ts";
import { type Cause, tooFew } from "./errors.ts";
import { type Extension, type ExtensionInput, newExtension, stepExtension } from "./extension.ts";
import { noAnswer, type Panel } from "./panel.ts";
import { extendReply, worstReason } from "./replies.ts";
import type { Hold } from "./rounds.ts";
import { EXTEND } from "./scripts.ts";
import { ms } from "./take-round.ts";

/** One lease of a batch. */
export interface Extended {
  readonly ref: GrantRef;
  /** The tenures that it was granted on, as far as we know. */
  readonly holds: readonly (Hold | null)[];
  /** Hears which tenures count from now on, again whenever a late answer changes that. */
  readonly onHolds: (holds: readonly (Hold | null)[]) => void;
  /** Sets it again at a server where it is absent. */
  readonly onRestore: (server: number) => void;
}

/** Extends a batch of leases: one write to each server, and an answer for each lease as soon as it is decided. */
export class ExtendRound {
  readonly #panel: Panel;
  readonly #quorum: number;
  readonly #leases: readonly Extended[];
  readonly #extensions: Extension[];
  readonly #reasons: GoneReason[][];
  readonly #causes: Cause[] = [];
  readonly #renewals: (Renewal | undefined)[];
  #open: number;
  #end: ((renewals: readonly Renewal[]) => void) | undefined;

  constructor(panel: Panel, quorum: number, leases: readonly Extended[]) {
    this.#panel = panel;
    this.#quorum = quorum;
    this.#leases = leases;
    this.#extensions = leases.map(({ holds }) => newExtension(quorum, holds));
    this.#reasons = leases.map(() => []);
    this.#renewals = leases.map(() => undefined);
    this.#open = leases.length;
  }

  async run(dueAt: number): Promise<readonly Renewal[]> {
    if (this.#leases.length === 0) return [];
    return await new Promise((resolve) => {
      const timer = this.#panel.watch(dueAt, () => {
        for (let server = 0; server < this.#panel.size; server += 1)
          this.#silent(server, noAnswer());
      });
      this.#end = (renewals) => {
        timer.cancel();
        resolve(renewals);
      };
      for (let server = 0; server < this.#panel.size; server += 1) void this.#ask(server, dueAt);
    });
  }

  async #ask(server: number, dueAt: number): Promise<void> {
    const calls = this.#leases.map(({ ref }): Call => {
      const keys = this.#panel.keysOf(server, ref.name);
      return {
        statement: EXTEND,
        keys: [keys.lock, keys.buried(ref.grantId)],
        args: [ref.grantId, ms(ref.ttlMs), ms(ref.lockDelayMs)],
      };
    });
    const outcomes = await this.#panel.ask(server, calls, dueAt);
    for (const [i, outcome] of outcomes.entries()) this.#hear(i, server, outcome);
  }

  #hear(i: number, server: number, outcome: Outcome): void {
    if (!outcome.ok) {
      this.#fail(i, server, asRedisError(outcome.error));
      return;
    }
    const reply = extendReply(outcome.value);
    if (reply.kind === "kept") this.#feed(i, { kind: "kept", server, hold: reply.hold });
    else {
      this.#reasons[i]?.push(reply.reason);
      this.#feed(i, { kind: reply.free ? "absent" : "refused", server });
    }
  }

  #silent(server: number, error: DriverError): void {
    for (const [i] of this.#leases.entries())
      if (this.#extensions[i]?.words[server] === "asked") this.#fail(i, server, error);
  }

  #fail(i: number, server: number, error: DriverError): void {
    const label = this.#panel.label(server);
    if (!this.#causes.some((cause) => cause.label === label)) this.#causes.push({ label, error });
    this.#feed(i, { kind: "silent", server });
  }

  #feed(i: number, input: ExtensionInput): void {
    const [lease, extension] = [this.#leases[i], this.#extensions[i]];
    if (lease === undefined || extension === undefined) return;
    const { next, outputs } = stepExtension(extension, input);
    this.#extensions[i] = next;
    if (next.holds !== extension.holds) lease.onHolds(next.holds);
    for (const output of outputs)
      if (output.kind === "restore") lease.onRestore(output.server);
      else this.#decided(i, this.#renewalOf(i, output.kind));
  }

  #renewalOf(i: number, kind: "renewed" | "gone" | "failed"): Renewal {
    const { ttlMs } = this.#leases[i]?.ref ?? { ttlMs: 0 };
    if (kind === "renewed") return { kind, ttlMs: Math.ceil(ttlMs) };
    if (kind === "gone") return { kind, reason: worstReason(this.#reasons[i] ?? []) };
    const words = this.#extensions[i]?.words ?? [];
    const votes = {
      got: words.filter((word) => word === "kept").length,
      needed: this.#quorum,
      servers: words.length,
    };
    return { kind, error: tooFew(votes, this.#causes, "unknown") };
  }

  #decided(i: number, renewal: Renewal): void {
    this.#renewals[i] = renewal;
    this.#open -= 1;
    if (this.#open > 0) return;
    const done = this.#renewals.map(
      (each): Renewal => each ?? { kind: "failed", error: noAnswer() },
    );
    this.#end?.(done);
  }
}
