import { EXIT, ExitError } from "./exit-codes.ts";
import type { OptionFlags } from "./option-spec.ts";

/** Arguments of `run`, apart: ours, and the command to run with its own. */
export interface SplitArguments {
  readonly own: readonly string[];
  readonly command: readonly string[];
}

/**
 * Splits `<name> [options] [--] <command> [args…]`. Without `--` the command has to be free of options: `run x make -n`
 * would otherwise read make's -n as ours, silently.
 * @throws ExitError 64 when `--` is needed
 */
export function splitCommand(
  argv: readonly string[],
  options: readonly OptionFlags[],
): SplitArguments {
  const mark = argv.indexOf("--");
  if (mark >= 0) return { own: argv.slice(0, mark), command: argv.slice(mark + 1) };
  let names = 0;
  for (let i = 0; i < argv.length; i += 1) {
    const arg = argv[i] ?? "";
    if (arg.startsWith("-") && arg !== "-") {
      if (takesNext(arg, options)) i += 1;
      continue;
    }
    names += 1;
    if (names < 2) continue;
    const command = argv.slice(i);
    if (command.some((word) => word.startsWith("-") && word !== "-"))
      throw new ExitError(
        EXIT.usage,
        `put -- before the command, since it has options of its own: ringfence run ${argv.slice(0, i).join(" ")} -- ${command.join(" ")}`,
      );
    return { own: argv.slice(0, i), command };
  }
  return { own: argv, command: [] };
}

/** Whether the argument is an option whose value is the next argument. */
function takesNext(arg: string, options: readonly OptionFlags[]): boolean {
  if (arg.startsWith("--")) {
    const option = options.find(({ long }) => long === arg);
    return option?.required === true;
  }
  // Short options may stand together; the first that takes a value takes the rest, or the next argument.
  for (let i = 1; i < arg.length; i += 1) {
    const option = options.find(({ short }) => short === `-${arg[i] ?? ""}`);
    if (option?.required === true) return i === arg.length - 1;
  }
  return false;
}
