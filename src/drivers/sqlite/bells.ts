/**
 * Doorbells: one file per process in a folder beside the database. Whoever makes an offer touches the file of the
 * process whose turn has come, which watches it while it has entries in a queue; within one process it is a call. Nothing depends on them: where a watch
 * cannot be had, or a ring is lost, the waiter's next poll finds the offer.
 */
import {
  closeSync,
  existsSync,
  type FSWatcher,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  watch,
} from "node:fs";
import { join } from "node:path";

/** A bell that nobody touched for so long, of a process that has no entry in any queue, is a dead one's. */
const STALE_MS = 60_000;

/** The backends of this process by bell file: they wake each other without it, and the last one removes it. */
const here = new Map<string, Set<Bells>>();

/** This process's doorbell, and the way to everybody else's. */
export class Bells {
  readonly #folder: string;
  readonly #own: string;
  readonly #onRing: () => void;
  readonly #wall: () => number;
  #watcher: FSWatcher | undefined;
  /** Whether the last try to watch failed, so that polls have to serve. */
  deaf = false;

  constructor(parts: {
    readonly database: string;
    /** The process, in characters that make a file name. */
    readonly host: string;
    readonly wall: () => number;
    readonly onRing: () => void;
  }) {
    this.#folder = `${parts.database}-bells`;
    this.#own = this.#path(parts.host);
    this.#wall = parts.wall;
    this.#onRing = parts.onRing;
    const beside = here.get(this.#own) ?? new Set();
    here.set(this.#own, beside.add(this));
  }

  /** Starts to watch this process's bell. Never throws. */
  listen(): void {
    if (this.#watcher !== undefined) return;
    try {
      this.#make();
      const watcher = watch(this.#own, { persistent: false });
      watcher.on("change", (event) => {
        this.#rung(event);
      });
      watcher.on("error", () => {
        this.deaf = true;
        this.rest();
      });
      this.#watcher = watcher;
      this.deaf = false;
    } catch {
      // Out of watches, or no right to make the file.
      this.deaf = true;
    }
  }

  /** Stops to watch: nobody here waits. */
  rest(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  /** Rings a process's bell. One that has none, or is gone, is not an error. */
  ring(host: string): void {
    const local = here.get(this.#path(host));
    if (local !== undefined) {
      for (const bells of [...local]) bells.#onRing();
      return;
    }
    const seconds = this.#wall() / 1000;
    try {
      utimesSync(this.#path(host), seconds, seconds);
    } catch {
      // It has no bell any more: it ended, or could not make one, and then it polls.
    }
  }

  /** Removes the bells of processes that are gone. `waits` tells whether a process has an entry in a queue. */
  sweep(waits: (host: string) => boolean): void {
    let names: string[];
    try {
      names = readdirSync(this.#folder);
    } catch {
      // No folder: nobody has ever waited here.
      return;
    }
    const before = this.#wall() - STALE_MS;
    for (const name of names) {
      const path = join(this.#folder, name);
      const touched = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
      if (path !== this.#own && touched < before && !waits(name)) rmSync(path, { force: true });
    }
  }

  close(): void {
    this.rest();
    const beside = here.get(this.#own);
    if (beside?.delete(this) !== true || beside.size > 0) return;
    here.delete(this.#own);
    // Most processes never waited, and to remove what is not there takes Node longer than to look.
    if (existsSync(this.#own)) rmSync(this.#own, { force: true });
  }

  /** Makes the bell, or touches it, so that no sweep takes it for a dead one's before our entry is in the queue. */
  #make(): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    closeSync(openSync(this.#own, "a", 0o600));
    const seconds = this.#wall() / 1000;
    utimesSync(this.#own, seconds, seconds);
  }

  #rung(event: string): void {
    if (event === "rename") {
      // Removed, by hand or by a sweep that took us for dead: a watch on a removed file hears nothing.
      this.rest();
      this.listen();
    }
    this.#onRing();
  }

  #path(host: string): string {
    return join(this.#folder, host);
  }
}
