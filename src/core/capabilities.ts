/**
 * What a backend's fencing token survives.
 * - `durable`: rises across every fault that the backend itself survives.
 * - `volatile`: rises until the backend forgets (failover, lost fsync, restore).
 * - `none`: there is no token.
 */
export type Fencing = "durable" | "volatile" | "none";

/** How a waiter learns that its turn has come. */
export type Waiting = "queue" | "notify" | "poll";

/** What keeps a lease alive: its own ttl, or a session that several leases share. */
export type Liveness = "ttl" | "session";

/** Whose clock ends a lease. */
export type LeaseClock =
  | "server-wall"
  | "server-monotonic"
  | "observer"
  | "host-monotonic"
  | "none";

/** The kinds of lease that a name can have. */
export type Mode = "exclusive" | "shared" | "permits";

/** When a fencing token gets its number: in the granting step, or already on joining the queue. */
export type Mints = "at-grant" | "at-enqueue";

/** Whether a lease can be handed to another process: anywhere, on the same host only, or not at all. */
export type Transfer = "yes" | "same-host" | "no";

/** Whether a record outlives its holder, so that `once` can find it. */
export type Retains = "yes" | "marker" | "no";

/** The promises that a driver declares in its types. */
export interface Capabilities {
  readonly fencing: Fencing;
  readonly waiting: Waiting;
  readonly liveness: Liveness;
  readonly clock: LeaseClock;
  readonly modes: Mode;
}

/** What a driver declares in values: the words of `Capabilities` (`modes` as a list), and what only matters at run time. */
export interface Declaration<C extends Capabilities = Capabilities> {
  readonly fencing: C["fencing"];
  readonly waiting: C["waiting"];
  readonly liveness: C["liveness"];
  readonly clock: C["clock"];
  readonly modes: readonly C["modes"][];
  /** Why the driver has no other modes, where there is more to say than that it has not. */
  readonly refusals?: Partial<Readonly<Record<Mode, string>>>;
  /** The shortest ttl that the store keeps, and the steps in which it counts, in milliseconds. */
  readonly ttl: { readonly minMs: number; readonly stepMs: number };
  readonly mints: Mints;
  readonly transfer: Transfer;
  readonly retains: Retains;
}

/** What the caller insists on; a driver that cannot keep it is refused. */
export interface Requirements {
  /** At least this much: `"durable"` also satisfies `"volatile"`. */
  readonly fencing?: "durable" | "volatile";
  /** A mode that the driver must have. */
  readonly modes?: Mode;
  /** `"notify"` is also satisfied by `"queue"`. */
  readonly waiting?: "queue" | "notify";
  /** Refuses stores whose leases end by a wall clock. */
  readonly survivesServerClockSteps?: true;
}

/** Fencing levels that satisfy a requirement. */
type AtLeast<R extends Requirements> = R extends { readonly fencing: "durable" }
  ? "durable"
  : R extends { readonly fencing: "volatile" }
    ? "durable" | "volatile"
    : Fencing;

/** The capabilities that remain possible once `R` was checked at run time. */
export interface Narrowed<C extends Capabilities, R extends Requirements> extends Capabilities {
  readonly fencing: Extract<C["fencing"], AtLeast<R>>;
  readonly waiting: C["waiting"];
  readonly liveness: C["liveness"];
  readonly clock: C["clock"];
  readonly modes: C["modes"];
}

/** A sentence for the compiler to print where `C` can never satisfy `R`. */
export type Satisfiable<C extends Capabilities, R extends Requirements> = [
  Extract<C["fencing"], AtLeast<R>>,
] extends [never]
  ? `this driver's fencing is "${C["fencing"]}", which never satisfies "${R["fencing"] & string}"`
  : R;

const FENCING_ORDER: readonly Fencing[] = ["none", "volatile", "durable"];
const WAITING_ORDER: readonly Waiting[] = ["poll", "notify", "queue"];

/** The sentences that say which requirements a declaration does not meet; empty when it meets all. */
export function unmet(declared: Declaration, required: Requirements): string[] {
  const problems: string[] = [];
  const { fencing, waiting, modes, survivesServerClockSteps } = required;
  if (
    fencing !== undefined &&
    FENCING_ORDER.indexOf(declared.fencing) < FENCING_ORDER.indexOf(fencing)
  )
    problems.push(`fencing "${fencing}" is required, the driver's is "${declared.fencing}"`);
  if (
    waiting !== undefined &&
    WAITING_ORDER.indexOf(declared.waiting) < WAITING_ORDER.indexOf(waiting)
  )
    problems.push(`waiting "${waiting}" is required, the driver's is "${declared.waiting}"`);
  if (modes !== undefined && !declared.modes.includes(modes))
    problems.push(`mode "${modes}" is required, the driver has ${declared.modes.join(", ")}`);
  if (survivesServerClockSteps === true && declared.clock === "server-wall")
    problems.push(
      "leases must survive a step of the server's clock, the driver's end by that clock",
    );
  return problems;
}
