import { flagsOf, type OptionFlags, type OptionSpec } from "./option-spec.ts";
import type { RunOptions } from "./run-settings.ts";
import { splitCommand } from "./split-command.ts";
import { STORE_OPTIONS } from "./store-options.ts";

function inGroup(group: string, options: readonly (readonly [string, string])[]): OptionSpec[] {
  return options.map(([flags, description]) => ({ group, flags, description }));
}

/** Every option of `run`. */
export const RUN_OPTIONS: readonly OptionSpec[] = [
  ...STORE_OPTIONS,
  ...inGroup("Waiting", [
    ["-w, --wait <duration>", "how long to wait: 500ms, 30s, 5m, 0 (default: forever)"],
    ["-n, --no-wait", "one attempt"],
    ["-E, --conflict-exit-code <n>", "exit with n instead of 75 when not acquired; 0 is silent"],
  ]),
  ...inGroup("Lease", [
    ["--ttl <duration>", "how long the lock outlives a ringfence that died (default: 30s)"],
    ["--max-hold <duration>", "end the command after this long"],
    ["--lock-delay <duration>", "quiet time after a holder that vanished, up to 60s"],
    ["--shared", "together with other shared holders"],
    ["--permits <n>", "one of n permits; all users of the name must say the same n"],
    ["--once <keep>", "skip if it ran within this time; never waits"],
    ["--at <time>", "with --once: the scheduled time that this run stands for"],
    ["--retry-on-error", "with --once: a failed run does not count"],
    ["--label <text>", "who holds it, for people (default: the command)"],
  ]),
  ...inGroup("Command", [
    ["--grace <duration>", "from TERM to KILL (default: a third of the ttl, at most 5s)"],
    ["--foreground", "in our process group, as on a terminal: it gets ^C from there, not from us"],
    ["--watch-fd <n>", "descriptor n closes in the command when ringfence is gone"],
  ]),
  ...inGroup("Output", [
    ["-v, --verbose", "say more on stderr"],
    ["-q, --quiet", "say only errors on stderr"],
  ]),
];

/** `run`'s arguments, when they are as they should be. */
export interface ParsedRun {
  readonly name: string;
  readonly words: readonly string[];
  readonly options: RunOptions;
}

/**
 * Reads plain arguments of `run` without Commander, which takes a third as long to load as Node to start: this is the
 * command that scripts call in a loop. `null` for whatever is unusual or wrong, and for --help: Commander then says
 * what it is.
 */
export function parsePlainRun(argv: readonly string[]): ParsedRun | null {
  const flags = RUN_OPTIONS.map(flagsOf);
  const { own, command } = splitCommand(argv, flags);
  const options: Record<string, string | boolean> = {};
  let name: string | undefined;
  for (let i = 0; i < own.length; i += 1) {
    const arg = own[i] ?? "";
    if (!arg.startsWith("-")) {
      if (name !== undefined) return null;
      name = arg;
      continue;
    }
    const found = flags.find(({ short, long }) => arg === short || arg === long);
    if (found === undefined) return null;
    const [key, value] = keyOf(found);
    if (!found.required) options[key] = value;
    else {
      i += 1;
      const next = own[i];
      if (next === undefined) return null;
      options[key] = next;
    }
  }
  return name === undefined ? null : { name, words: command, options };
}

/** Where Commander puts an option, and what it puts there for one without a value. */
function keyOf({ long = "" }: OptionFlags): readonly [key: string, value: boolean] {
  const bare = long.replace(/^--(no-)?/, "");
  const key = bare.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  return [key, !long.startsWith("--no-")];
}
