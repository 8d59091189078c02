/** What a server finds when it starts again. `page-cache`: only the process died. `synced`: the power went. */
export type Survival = "page-cache" | "synced" | "nothing";

/**
 * A file of records behind a write buffer. What is appended survives a killed process at once, since the kernel has it,
 * and a power loss only from the next `sync` on.
 */
export class Disk<R> {
  #records: R[] = [];
  #synced = 0;

  append(record: R): void {
    this.#records.push(record);
  }

  sync(): void {
    this.#synced = this.#records.length;
  }

  /**
   * The records that are left after a crash, oldest first. `written`: how many of those that were never synced had been
   * written back by chance when the power went.
   */
  recover(survival: Survival, written = 0): readonly R[] {
    if (survival === "nothing") this.#records = [];
    if (survival === "synced")
      this.#records.length = Math.min(this.#records.length, this.#synced + written);
    this.#synced = this.#records.length;
    return this.#records;
  }

  /** Another machine's disk in place of this one's, as after a restore. */
  replaceBy(other: Disk<R>): void {
    this.#records = [...other.#records];
    this.#synced = this.#records.length;
  }

  get length(): number {
    return this.#records.length;
  }

  /** How many records a power loss may take. */
  get unsynced(): number {
    return this.#records.length - this.#synced;
  }
}
