import type { Command } from "commander";
import type { Messages } from "./messages.ts";

/** What a command is given when it runs. */
export interface Invocation {
  readonly env: NodeJS.ProcessEnv;
  /** For `run`: the words of the command to run. */
  readonly words: readonly string[];
  readonly messages: Messages;
  /** The whole command line with every command in full. */
  readonly program: () => Promise<Command>;
}

/** What a command does; resolves to the exit code. */
export type Action = (invocation: Invocation) => Promise<number>;

/** One command: its name, its place on the command line, and what it does. */
export interface CommandModule {
  readonly name: string;
  readonly summary: string;
  /** What follows `--`, or the second word, is a command of its own. */
  readonly takesCommand?: boolean;
  /** Declares arguments, options and help on `command`; its action hands what there is to do to `act`. */
  define(command: Command, act: (action: Action) => void): void;
}
