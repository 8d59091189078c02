import type { DriverFixture } from "../driver-contract/fixture.ts";
import type { FaultWorld } from "./world.ts";

/** One promise and its test. */
interface FaultPromise {
  /** A whole sentence that is false when the test fails. */
  readonly promise: string;
  /** The reason why it does not apply to such a driver, or `null`. */
  readonly excuse?: (fixture: DriverFixture) => string | null;
  run(world: FaultWorld): Promise<void>;
}

/** The promises under one kind of fault. */
export interface FaultModule {
  readonly name: string;
  /** The reason why the whole module does not apply to such a driver, or `null`. */
  excuse(fixture: DriverFixture): string | null;
  readonly promises: readonly FaultPromise[];
}
