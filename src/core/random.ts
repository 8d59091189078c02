/** A source of chance, lent to core and drivers. */
export interface Random {
  /** `n` bytes that nobody can guess. */
  bytes(n: number): Uint8Array;
  /** Uniform in [0, 1): for jitter, never for secrets. */
  unit(): number;
  /** Forgets what was drawn in advance: a cloned virtual machine must not repeat what its twin drew. */
  forget?(): void;
}
