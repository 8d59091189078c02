import { InvalidArgumentError } from "./errors.ts";
import type { ReleaseOutcome } from "./lease.ts";
import type { LiveLease } from "./live-lease.ts";
import type { AcquireOptions } from "./lock-manager.ts";
import { compareNames } from "./lock-name.ts";
import type { ManagerEngine } from "./manager.ts";
import { CALL_OPTIONS } from "./option-names.ts";

/** All of several leases. */
class LiveLeaseSet {
  readonly leases: readonly LiveLease[];
  #controller: AbortController | undefined;

  constructor(leases: readonly LiveLease[]) {
    this.leases = leases;
  }

  get(name: string): LiveLease | undefined {
    return this.leases.find((lease) => lease.name === name);
  }

  get signal(): AbortSignal {
    const controller = (this.#controller ??= this.#follow());
    // Reading each signal checks its clock, as for a single lease.
    for (const { signal } of this.leases) if (signal.aborted) controller.abort(signal.reason);
    return controller.signal;
  }

  #follow(): AbortController {
    const controller = new AbortController();
    for (const { signal } of this.leases)
      signal.addEventListener(
        "abort",
        () => {
          controller.abort(signal.reason);
        },
        { once: true },
      );
    return controller;
  }

  async release(): Promise<ReadonlyMap<string, ReleaseOutcome>> {
    const outcomes = await Promise.all(
      this.leases.map(
        async (lease): Promise<[string, ReleaseOutcome]> => [lease.name, await lease.release()],
      ),
    );
    return new Map(outcomes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Takes all names in the one order of every process, within one wait, or none. */
export async function acquireAll(
  engine: ManagerEngine,
  names: readonly string[],
  options: AcquireOptions<never> | undefined,
): Promise<LiveLeaseSet> {
  if (!(names instanceof Array) || names.length === 0)
    throw new InvalidArgumentError("Expected a list of at least one lock name.");
  const checked = names.map((name) => ({
    name,
    terms: engine.termsFor(name, options, CALL_OPTIONS.acquire),
  }));
  const unique = [...new Map(checked.map((each) => [each.name, each])).values()];
  unique.sort((a, b) => compareNames(a.name, b.name));
  const startedAt = engine.clock.mono();
  const leases: LiveLease[] = [];
  try {
    for (const { name, terms } of unique) {
      const waitMs = Math.max(0, terms.waitMs - (engine.clock.mono() - startedAt));
      leases.push(await engine.acquire(name, { ...terms, waitMs }, options?.signal));
      // A long wait for one name must not hide that an earlier one was lost meanwhile.
      for (const lease of leases) lease.assertHeld();
    }
  } catch (error) {
    await Promise.all(leases.map(async (lease) => lease.release()));
    throw error;
  }
  return new LiveLeaseSet(leases);
}
