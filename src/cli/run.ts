import type { CommandModule } from "./command-module.ts";
import { withExamples, withExitCodes, withSection } from "./help.ts";
import { RUN_OPTIONS } from "./run-options.ts";
import type { RunOptions } from "./run-settings.ts";

const ENVIRONMENT = `\
  The command runs without a shell, with our stdin, stdout and stderr, and finds:
  RINGFENCE_LOCK       the lock's name
  RINGFENCE_TOKEN      the fencing token, in decimal; a permit has none
  RINGFENCE_SEQUENCER  what another server needs to check its writes; a permit has none
  RINGFENCE_GRANT_ID   the public id of the grant, as \`ringfence inspect\` shows it`;

const STORE = `\
  --store or --store-file, else RINGFENCE_STORE, else SQLite in
  \${XDG_STATE_HOME:-~/.local/state}/ringfence/locks.db`;

const LOSS = `\
  When the lease cannot be renewed, the command gets TERM early enough to end, after
  the grace KILL, before anybody else may enter; then ringfence exits with 79. Only a
  guard at the resource stops a command whose ringfence was stopped or killed first.`;

/** `ringfence run <name> [options] -- <command> [args…]` */
export const run: CommandModule = {
  name: "run",
  summary: "run a command while a lock is held",
  takesCommand: true,
  define(command, act) {
    command
      .usage("<name> [options] -- <command> [args...]")
      .argument("<name>", "the lock's name: 1 to 512 bytes of UTF-8");
    for (const { group, flags, description } of RUN_OPTIONS)
      command.optionsGroup(`${group}:`).option(flags, description);
    withExamples(command, [
      ["ringfence run nightly -- ./backup.sh", "wait for the lock, run, give it back"],
      ["ringfence run nightly -n -E 0 -- ./backup.sh", "cron: skip silently when it runs already"],
      ["ringfence run report --once 1h -- ./report.sh", "once an hour, on however many hosts"],
      ["ringfence run deploy --wait 5m -- make deploy", "give up after five minutes, with 75"],
      ["ringfence run gpu --permits 4 -- ./train.py", "at most four at a time"],
    ]);
    withSection(command, "Environment", ENVIRONMENT);
    withSection(command, "Which store", STORE);
    withSection(command, "When the lease is lost", LOSS);
    withExitCodes(command);
    command.action((name: string, options: RunOptions) => {
      act(async ({ env, words }) => {
        const { runCommand } = await import("./run-command.ts");
        return runCommand(name, words, options, env);
      });
    });
  },
};
