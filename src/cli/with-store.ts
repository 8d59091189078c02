import type { Command } from "commander";
import { STORE_OPTIONS } from "./store-options.ts";

/** Declares the options that say where the locks are. */
export function withStore(command: Command): Command {
  for (const { group, flags, description } of STORE_OPTIONS)
    command.optionsGroup(`${group}:`).option(flags, description);
  return command;
}
