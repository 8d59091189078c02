import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import type { Action, CommandModule } from "./command-module.ts";
import { EXIT, EXIT_TABLE, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import type { Messages } from "./messages.ts";
import { splitCommand } from "./split-command.ts";
import { writeOut } from "./stdio.ts";

/** Every command: what its list shows, and where it is. Only the one that was called is loaded. */
const COMMANDS: readonly {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
}[] = [
  {
    name: "run",
    summary: "run a command while a lock is held",
    load: async () => (await import("./run.ts")).run,
  },
  {
    name: "ls",
    summary: "list the locks that are held or waited for",
    load: async () => (await import("./ls.ts")).ls,
  },
  {
    name: "inspect",
    summary: "show one lock",
    load: async () => (await import("./inspect.ts")).inspect,
  },
  {
    name: "revoke",
    summary: "take a lock from its holder",
    load: async () => (await import("./revoke.ts")).revoke,
  },
  {
    name: "watch",
    summary: "watch the locks change",
    load: async () => (await import("./watch.ts")).watch,
  },
  {
    name: "doctor",
    summary: "what a store is, and what it can keep",
    load: async () => (await import("./doctor.ts")).doctor,
  },
  {
    name: "verify",
    summary: "judge a recorded history: was every lock kept?",
    load: async () => (await import("./verify.ts")).verify,
  },
  {
    name: "lab",
    summary: "failures of distributed locks, simulated",
    load: async () => (await import("./lab.ts")).lab,
  },
  {
    name: "schema",
    summary: "print or make the tables of a store that has some",
    load: async () => (await import("./schema.ts")).schema,
  },
  {
    name: "completion",
    summary: "print a completion script for your shell",
    load: async () => (await import("./completion.ts")).completion,
  },
  {
    name: "demo",
    summary: "one parcel, two riders: why a lock alone is not enough",
    load: async () => (await import("./demo.ts")).demo,
  },
];

/** Parses the command line and does what it says. @throws ExitError 64 for what is wrong with it */
export async function dispatch(
  typed: readonly string[],
  env: NodeJS.ProcessEnv,
  messages: Messages,
): Promise<number> {
  const argv = helpFirst(typed);
  const called = argv.find((arg) => !arg.startsWith("-"));
  const entry = COMMANDS.find(({ name }) => name === called);
  let output = "";
  const program = programNamed("ringfence", (text) => {
    output += text;
  });
  let action: Action | undefined;
  let words: readonly string[] = [];
  let own = argv;
  for (const { name, summary, load } of COMMANDS) {
    const command = program.command(name).summary(summary);
    if (entry?.name !== name) continue;
    const module = await load();
    module.define(command, (chosen) => {
      action = chosen;
    });
    if (module.takesCommand !== true) continue;
    const at = argv.indexOf(name) + 1;
    const split = splitCommand(argv.slice(at), command.options);
    words = split.command;
    own = [...argv.slice(0, at), ...split.own];
  }
  try {
    // Without a word there is nothing to do wrong: the help is the answer.
    await program.parseAsync(argv.length === 0 ? ["--help"] : own, { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw usageError(error, called, output);
  }
  await writeOut(output);
  return action === undefined ? EXIT.done : await action({ env, words, messages, program: whole });
}

/** Every command in full, for completion. */
async function whole(): Promise<Command> {
  const program = programNamed("ringfence", () => undefined);
  for (const { name, summary, load } of COMMANDS)
    (await load()).define(program.command(name).summary(summary), () => undefined);
  return program;
}

function programNamed(name: string, write: (text: string) => void): Command {
  const program = new Command(name)
    .summary("locks for shell scripts and people, over the stores that services use")
    .usage("<command> [options]")
    .version(version(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand(false)
    .exitOverride()
    // What Commander writes is collected: written by itself, it would be cut off when the process exits.
    .configureOutput({ writeOut: write, writeErr: write, getOutHelpWidth: () => 88 });
  withExamples(program, [
    ["ringfence run nightly -- ./backup.sh", "run a command under a lock"],
    ["ringfence ls", "who holds what"],
    ["ringfence run --help", "everything about a command"],
  ]);
  withExitCodes(program, EXIT_TABLE);
  return program;
}

/** `help`, `help run`: as people type it for other tools. */
function helpFirst(argv: readonly string[]): readonly string[] {
  return argv[0] === "help" ? [...argv.slice(1, 2), "--help"] : argv;
}

/** Commander's sentence with its suggestion, and where to read on. */
function usageError(error: CommanderError, called: string | undefined, output: string): ExitError {
  const text = (output === "" ? error.message : output).replace(/^error: /, "").trim();
  const known = COMMANDS.some(({ name }) => name === called);
  return new ExitError(
    EXIT.usage,
    `${text.replaceAll("\n", " ")}\nTry \`ringfence ${known ? `${called ?? ""} ` : ""}--help\`.`,
  );
}

function version(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
