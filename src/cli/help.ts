import type { Command } from "commander";
import { EXIT_TABLE } from "./exit-codes.ts";

/** One example: what to type, and what it is for. */
export type Example = readonly [line: string, what: string];

/** Puts a summary and examples before the usage: most people look for those, and for nothing else. */
export function withExamples(command: Command, examples: readonly Example[]): Command {
  const lines = examples.map(([line, what]) => `  # ${what}\n  ${line}\n`).join("\n");
  return command.addHelpText(
    "before",
    () => `${title(command)} - ${command.summary()}\n\nExamples:\n${lines}`,
  );
}

/** Puts a section after the options. */
export function withSection(command: Command, heading: string, text: string): Command {
  return command.addHelpText("after", `\n${heading}:\n${text.trimEnd()}`);
}

/** Puts the table of exit codes at the end. */
export function withExitCodes(
  command: Command,
  table: readonly (readonly [code: string, meaning: string])[] = EXIT_TABLE,
): Command {
  const width = Math.max(...table.map(([code]) => code.length));
  return withSection(
    command,
    "Exit codes",
    table.map(([code, meaning]) => `  ${code.padEnd(width)}  ${meaning}`).join("\n"),
  );
}

function title(command: Command): string {
  return command.parent === null ? command.name() : `${command.parent.name()} ${command.name()}`;
}
