import type { Command } from "commander";
import type { CommandModule } from "./command-module.ts";
import { withExamples, withExitCodes, withSection } from "./help.ts";
import { Messages } from "./messages.ts";
import { type RunOptions, runSettings } from "./run-settings.ts";
import { withStore } from "./store.ts";

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
    defineOptions(command);
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
        const settings = runSettings(name, words, options, env);
        const { runUnderLock } = await import("./run-under-lock.ts");
        const messages = new Messages(settings.level);
        try {
          return await runUnderLock(settings, env, messages);
        } finally {
          await messages.flush();
        }
      });
    });
  },
};

function defineOptions(command: Command): void {
  withStore(command)
    .optionsGroup("Waiting:")
    .option("-w, --wait <duration>", "how long to wait: 500ms, 30s, 5m, 0 (default: forever)")
    .option("-n, --no-wait", "one attempt")
    .option(
      "-E, --conflict-exit-code <n>",
      "exit with n instead of 75 when not acquired; 0 is silent",
    )
    .optionsGroup("Lease:")
    .option("--ttl <duration>", "how long the lock outlives a ringfence that died (default: 30s)")
    .option("--max-hold <duration>", "end the command after this long")
    .option("--lock-delay <duration>", "quiet time after a holder that vanished, up to 60s")
    .option("--shared", "together with other shared holders")
    .option("--permits <n>", "one of n permits; all users of the name must say the same n")
    .option("--once <keep>", "skip if it ran within this time; never waits")
    .option("--at <time>", "with --once: the scheduled time that this run stands for")
    .option("--retry-on-error", "with --once: a failed run does not count")
    .option("--label <text>", "who holds it, for people (default: the command)")
    .optionsGroup("Command:")
    .option("--grace <duration>", "from TERM to KILL (default: a third of the ttl, at most 5s)")
    .option(
      "--foreground",
      "in our process group, as on a terminal: it gets ^C from there, not from us",
    )
    .option("--watch-fd <n>", "descriptor n closes in the command when ringfence is gone")
    .optionsGroup("Output:")
    .option("-v, --verbose", "say more on stderr")
    .option("-q, --quiet", "say only errors on stderr");
}
