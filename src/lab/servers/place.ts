import type { Driver } from "../../core/driver.ts";
import type { LabCapabilities } from "../clients/core-client.ts";
import type { SimProcess } from "../sim/process.ts";

/** Where a simulated lock lives: a server over the network, or a file on the clients' own host. */
export interface LockPlace {
  /** In whose name its own steps are recorded. */
  readonly name: string;
  /** Starts a client's process where it can reach the lock. */
  startClient(name: string): SimProcess;
  /** What a client process opens. */
  driverFor(client: SimProcess): Driver<LabCapabilities>;
}
