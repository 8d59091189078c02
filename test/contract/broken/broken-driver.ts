import type { Ask, Backend, Driver, GrantRef, Io, LockRecord } from "../../../src/core/driver.ts";
import { memoryDriver } from "../../../src/drivers/memory/index.ts";
import { type Twist, twistedDriver } from "../twisted-driver.ts";

/** A driver with one fault, and the promise of the contract that must catch it. */
export interface BrokenDriver {
  readonly fault: string;
  readonly caughtBy: string;
  make(): Driver;
  /** Breaks what all memory drivers share; undone by what it returns. */
  sabotage?(): () => void;
}

/** Replaces methods of the backend. */
export function twisted(fault: string, caughtBy: string, twist: Twist): BrokenDriver {
  return { fault, caughtBy, make: () => twistedDriver(twist) };
}

/** Changes every ask on its way in. */
export function asking(
  fault: string,
  caughtBy: string,
  change: (ask: Ask) => Partial<Ask>,
): BrokenDriver {
  return twisted(fault, caughtBy, (inner) => ({
    attempt: async (ask, io) => inner.attempt({ ...ask, ...change(ask) }, io),
  }));
}

/** Changes every reference on its way into a release. */
export function releasing(
  fault: string,
  caughtBy: string,
  change: (ref: GrantRef) => GrantRef,
): BrokenDriver {
  return twisted(fault, caughtBy, (inner) => ({
    release: async (refs, io) => inner.release(refs.map(change), io),
  }));
}

/** Replaces a method of a class; `original` is the one that was there. */
export function sabotaged<T extends object, K extends keyof T>(
  fault: string,
  caughtBy: string,
  prototype: T,
  method: K,
  replacement: (original: T[K]) => T[K],
): BrokenDriver {
  return {
    fault,
    caughtBy,
    make: memoryDriver,
    sabotage() {
      const original = prototype[method];
      prototype[method] = replacement(original);
      return () => {
        prototype[method] = original;
      };
    },
  };
}

export async function holdersOf(
  inner: Backend,
  name: string,
  io: Io,
): Promise<LockRecord["holders"]> {
  return (await inner.inspect(name, io)).holders;
}

/** A copy that lacks one property. */
export function without<T extends object, K extends keyof T>(what: T, key: K): Omit<T, K> {
  const copy = { ...what };
  Reflect.deleteProperty(copy, key);
  return copy;
}
