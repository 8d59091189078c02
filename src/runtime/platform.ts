import type { Platform } from "../core/lock-manager.ts";
import { asyncContext } from "./async-context.ts";
import { diagnosticsSink } from "./event-sink.ts";
import { historyFile } from "./history-file.ts";
import { processIdentity } from "./process-identity.ts";
import { systemClock } from "./system-clock.ts";
import { systemMac } from "./system-mac.ts";
import { systemRandom } from "./system-random.ts";

/** What this host lends to a manager, unless its options lend something else. */
export function systemPlatform(): Platform {
  return {
    clock: systemClock,
    random: systemRandom,
    mac: systemMac,
    host: processIdentity(),
    sinks: [diagnosticsSink],
    context: asyncContext,
    historySink: historyFile,
  };
}
