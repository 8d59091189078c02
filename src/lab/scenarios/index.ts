import { DATABASES } from "./databases.ts";
import { EFFECTS } from "./effects.ts";
import { HANDING_OVER } from "./handing-over.ts";
import { MESSAGES } from "./messages.ts";
import { PAUSES } from "./pauses.ts";
import type { Scenario } from "./scenario.ts";
import { SERVERS } from "./servers.ts";
import { STORES } from "./stores.ts";
import { WAITING } from "./waiting.ts";

/** Every scenario that runs on what is there, by its number. */
export const SCENARIOS: readonly Scenario[] = [
  ...PAUSES,
  ...MESSAGES,
  ...SERVERS,
  ...STORES,
  ...WAITING,
  ...HANDING_OVER,
  ...EFFECTS,
  ...DATABASES,
].sort((a, b) => (a.id < b.id ? -1 : 1));

export type { Scenario } from "./scenario.ts";
