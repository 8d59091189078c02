/** Worlds that wait to be run by whoever has the event loop, and the way to run promises between their events. */
class Jobs {
  /** Runs every promise callback that is due; `null` outside of a sealed run. */
  drain: (() => void) | null = null;
  #waiting: (() => void)[] = [];

  begin(drain: () => void): void {
    this.drain = drain;
    this.#waiting = [];
  }

  end(): void {
    this.drain = null;
    this.#waiting = [];
  }

  add(job: () => void): void {
    this.#waiting.push(job);
  }

  /** Runs the next one; `false` when there is none. */
  next(): boolean {
    const job = this.#waiting.shift();
    job?.();
    return job !== undefined;
  }
}

export const jobs: Jobs = new Jobs();
