import type { Network } from "./network.ts";
import type { SimProcess } from "./process.ts";
import type { Happening } from "./scheduler.ts";

/** How long the kernel waits before it sends again what was not acknowledged; twice as long each time. Milliseconds. */
const RESEND_MS = 200;
/** How often it does; then the line is taken for dead. */
const RESENDS = 7;

/**
 * One direction of a connection as TCP makes it of links that lose, repeat and reorder: what is sent arrives once and in
 * order, late where it was lost, or not at all where the line stays dead. Kernels do this, so it goes on while the
 * processes are stopped or gone.
 */
export class Line {
  readonly #net: Network;
  readonly #from: SimProcess;
  readonly #to: () => SimProcess;
  readonly #onDead: () => void;
  readonly #resends = new Map<number, Happening>();
  readonly #early = new Map<number, () => void>();
  #sent = 0;
  #next = 0;
  #dead = false;

  /** `to`: whoever has the other end's name when a message leaves. `onDead`: nothing was acknowledged for long. */
  constructor(net: Network, from: SimProcess, to: () => SimProcess, onDead: () => void) {
    this.#net = net;
    this.#from = from;
    this.#to = to;
    this.#onDead = onDead;
  }

  send(label: string, deliver: () => void): void {
    if (this.#dead) return;
    const nr = this.#sent;
    this.#sent += 1;
    // The same one for every copy, so that whoever keeps or loses one on its way knows the others.
    const arrive = (): void => {
      this.#arrive(nr, deliver);
    };
    this.#transmit(nr, label, arrive, RESEND_MS, RESENDS);
  }

  /** Nothing more is sent or delivered. */
  kill(): void {
    this.#dead = true;
    for (const resend of this.#resends.values()) resend.cancel();
    this.#resends.clear();
    this.#early.clear();
  }

  #transmit(nr: number, label: string, deliver: () => void, ms: number, left: number): void {
    this.#net.send({ from: this.#from, to: this.#to(), label, deliver });
    const resend = this.#net.scheduler.after(ms, () => {
      if (left > 0) this.#transmit(nr, label, deliver, 2 * ms, left - 1);
      else {
        this.kill();
        this.#onDead();
      }
    });
    this.#resends.set(nr, resend);
  }

  #arrive(nr: number, deliver: () => void): void {
    this.#resends.get(nr)?.cancel();
    this.#resends.delete(nr);
    if (this.#dead || nr < this.#next || this.#early.has(nr)) return;
    this.#early.set(nr, deliver);
    for (let next = this.#early.get(this.#next); next !== undefined; ) {
      this.#early.delete(this.#next);
      this.#next += 1;
      next();
      next = this.#early.get(this.#next);
    }
  }
}
