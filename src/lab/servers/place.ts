import type { Driver } from "../../core/driver.ts";
import type { MemoryCapabilities } from "../../drivers/memory/index.ts";
import type { SimProcess } from "../sim/process.ts";

/** Where a simulated lock lives: a server over the network, or a file on the clients' own host. */
export interface LockPlace {
  /** In whose name its own steps are recorded. */
  readonly name: string;
  /** Starts a client's process where it can reach the lock. */
  startClient(name: string): SimProcess;
  /** What a client process opens. Every driver in the simulator has what the memory driver has. */
  driverFor(client: SimProcess): Driver<MemoryCapabilities>;
}
