import type { OptionSpec } from "./option-spec.ts";

const group = "Store";

/** The options that say where the locks are: those of every command that uses a store. */
export const STORE_OPTIONS: readonly OptionSpec[] = [
  {
    group,
    flags: "--store <url>",
    description: "where the locks are; no passwords here, `ps` shows them to everybody",
  },
  { group, flags: "--store-file <file>", description: "a file that holds the URL" },
  {
    group,
    flags: "--namespace <name>",
    description: "keeps the locks of one store apart (RINGFENCE_NAMESPACE)",
  },
];
