import { type Command, Option } from "commander";
import type { Format } from "./lock-view.ts";

/** The option of every command that shows data. */
export interface OutputOptions {
  readonly output: Format;
}

/** Declares `-o`. */
export function withOutput(command: Command, formats: readonly Format[]): Command {
  return command
    .optionsGroup("Output:")
    .addOption(
      new Option("-o, --output <format>", "how to print")
        .choices([...formats])
        .default("table" satisfies Format),
    );
}
