import type { LockTerms } from "../clients/client.ts";
import type { ArmName } from "../scenarios/scenario.ts";
import type { Update } from "../workloads/ledger.ts";

/** How a process of clients is started. */
export interface WorkerSetup {
  readonly scenario: string;
  readonly arm: ArmName;
  /** The clients in it. */
  readonly names: readonly string[];
  /** Where its events go, one line each. */
  readonly file: string;
  /** Ringfence's store; `null`: the client is a naive one. */
  readonly store: string | null;
  /** The database that hand-written locks and data in a PostgreSQL are in; `null`: there is none. */
  readonly database: string | null;
  /** Ports at which the lock's Redis servers are reached, the primary's first. */
  readonly redis: readonly number[];
  readonly resource: number;
  readonly service: number;
  /** Numbers of its calls begin above. */
  readonly ops: number;
}

/** A lease in a client process, as the supervisor knows it. */
export interface HeldFacts {
  /** Its number in that process. */
  readonly id: number;
  readonly lock: string;
  readonly grant: string;
  readonly token: string | null;
  readonly scope: string;
}

/** What a client process is told to do. Leases go by their numbers. */
export type Task =
  | { readonly do: "acquire"; readonly lock: string; readonly terms: LockTerms }
  | {
      readonly do: "resume";
      readonly lock: string;
      readonly terms: LockTerms;
      readonly text: string;
    }
  | { readonly do: "acquireAll"; readonly locks: readonly string[]; readonly terms: LockTerms }
  | { readonly do: "releaseAll" | "nothing" }
  | { readonly do: "believes" | "release" | "handOver"; readonly held: number }
  | { readonly do: "renew"; readonly held: number; readonly ms: number }
  | { readonly do: "sleep"; readonly ms: number }
  | { readonly do: "revoke"; readonly lock: string }
  | { readonly do: "claim" | "read"; readonly held: number; readonly res: string }
  | { readonly do: "write"; readonly held: number; readonly res: string; readonly from: number }
  | { readonly do: "update"; readonly held: number; readonly how: Update }
  | { readonly do: "byHand"; readonly res: string; readonly from: number | null }
  | {
      readonly do: "order";
      readonly held: number;
      readonly business: string;
      readonly key: string;
      readonly body: string;
    };

/** A client's task with its number; or that whoever asked to be stopped in one goes on. */
export type Told =
  | (Task & { readonly n: number; readonly as: string })
  | { readonly do: "go on"; readonly n: number };

/** What a client process says; the first is `n: 0`, when it is ready. */
export type Said =
  | { readonly n: number; readonly result: unknown }
  | { readonly n: number; readonly error: string }
  /** It asks to be stopped for so many milliseconds, and does nothing more in this task until it is told to go on. */
  | { readonly n: number; readonly stopMs: number };

/** What goes over the wire to the resource, and to the service that cannot check. */
export type ResourceRequest = {
  readonly p: string;
  readonly op: number;
  readonly res: string;
  readonly lock: string;
  readonly grant: string;
  readonly token: string | null;
  readonly scope: string;
} & (
  | { readonly f: "claim" | "read" }
  | { readonly f: "write"; readonly from: number; readonly path: string }
  | { readonly f: "effect"; readonly business: string; readonly key: string; readonly body: string }
);
