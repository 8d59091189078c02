import { DriverError } from "../../core/driver.ts";
import { encodeName } from "../../core/lock-name.ts";

/** How many hash slots a Redis Cluster has. */
export const SLOTS = 16_384;

/** The four keys of a name, in the order of `KEYS` in every script: lock, queue, occupants, records. */
export type LockKeys = readonly [lock: string, queue: string, occupants: string, records: string];

/**
 * Names the keys and channels of one namespace: `<key prefix>ringfence:<namespace>:{<name>}:<part>`, both
 * percent-encoded, so that a brace in a name cannot move it to another slot than its siblings.
 */
export class KeySpace {
  readonly #base: string;
  readonly #prefix: string;

  /**
   * @param prefix - what the user's client puts before its keys, already a part of them here
   * @throws DriverError when the prefix makes Redis hash whole keys, so that a name would be spread over slots
   */
  constructor(prefix: string, namespace: string) {
    this.#prefix = prefix;
    this.#base = `${prefix}ringfence:${encodeName(namespace)}:{`;
    if (/^[^{]*\{\}/.test(prefix))
      throw new DriverError(
        "config",
        "not-applied",
        `the key prefix ${JSON.stringify(prefix)} has an empty hash tag: use another one, or none`,
      );
  }

  of(name: string): LockKeys {
    const tag = `${this.#base}${encodeName(name)}}:`;
    return [`${tag}l`, `${tag}q`, `${tag}c`, `${tag}r`];
  }

  /** The first of them alone. */
  lock(name: string): string {
    return `${this.#base}${encodeName(name)}}:l`;
  }

  /** The channel on which one process is woken. */
  channel(id: string): string {
    return `${this.#prefix}ringfence:wake:${encodeName(id)}`;
  }

  /** A `MATCH` pattern for the lock keys of names that begin with `prefix`. */
  pattern(prefix: string): string {
    const literal = this.#base.replace(/[*?[\]\\^]/g, (c) => `\\${c}`);
    return `${literal}${encodeName(prefix)}*}:l`;
  }

  /** The encoded name in a lock key, or `undefined` for somebody else's key. */
  encodedNameIn(key: string): string | undefined {
    if (!key.startsWith(this.#base) || !key.endsWith("}:l")) return undefined;
    return key.slice(this.#base.length, -3);
  }
}

/** The hash slot of a key: of what stands in its first braces, if that is anything. */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1)
      crc = (crc & 0x8000) === 0 ? (crc << 1) & 0xffff : ((crc << 1) ^ 0x1021) & 0xffff;
  }
  return crc % SLOTS;
}
