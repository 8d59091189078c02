import type { Command, Option } from "commander";
import type { CommandModule } from "./command-module.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { writeOut } from "./stdio.ts";

/** The shells that there is a script for. */
const SHELLS: Record<string, (commands: readonly Described[]) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** What a script has to know of one command. */
interface Described {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly Option[];
  /** Its first word is a lock name. */
  readonly takesName: boolean;
  /** Its first word is one of these. */
  readonly words: readonly string[];
}

/** `ringfence completion bash|zsh|fish` */
export const completion: CommandModule = {
  name: "completion",
  summary: "print a completion script for your shell",
  define(command, act) {
    command.argument("<shell>", "bash, zsh or fish");
    withExamples(command, [
      ['eval "$(ringfence completion bash)"', "in ~/.bashrc"],
      ['eval "$(ringfence completion zsh)"', "in ~/.zshrc, after compinit"],
      ["ringfence completion fish | source", "in ~/.config/fish/config.fish"],
    ]);
    withExitCodes(command, [
      ["0", "printed"],
      ["64", "another shell"],
    ]);
    command.action((shell: string) => {
      act(async ({ program }) => {
        const script = SHELLS[shell];
        if (script === undefined)
          throw new ExitError(
            EXIT.usage,
            `there is a completion script for ${Object.keys(SHELLS).join(", ")}, not for ${shell}`,
          );
        await writeOut(script((await program()).commands.map(describe)));
        return EXIT.done;
      });
    });
  },
};

function describe(command: Command): Described {
  const [first] = command.registeredArguments;
  return {
    name: command.name(),
    summary: command.summary(),
    options: command.createHelp().visibleOptions(command),
    takesName: first?.name() === "name",
    words: command.name() === "completion" ? Object.keys(SHELLS) : [],
  };
}

function flagsOf(options: readonly Option[]): string[] {
  return options.flatMap(({ short, long }) => [short, long]).filter((flag) => flag !== undefined);
}

/** Names come from the default store: a store named on the line would have to be parsed for it. */
const NAMES = "ringfence ls -o name 2>/dev/null";

function bashScript(commands: readonly Described[]): string {
  const cases = commands
    .map(
      ({ name, options, takesName, words }) =>
        `    ${name}) flags="${flagsOf(options).join(" ")}"; words="${words.join(" ")}"; names=${takesName ? 1 : 0} ;;`,
    )
    .join("\n");
  const withValue = commands.flatMap(({ options }) => flagsOf(options.filter((o) => o.required)));
  return `# bash completion of ringfence
_ringfence() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]} i
  local flags words names
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(" ")} --help --version" -- "$cur"))
    return
  fi
  if [[ $command == run ]]; then
    for (( i = 2; i < COMP_CWORD; i++ )); do
      if [[ \${COMP_WORDS[i]} == -- ]]; then
        if declare -F _command_offset >/dev/null; then _command_offset $((i + 1))
        elif (( i + 1 == COMP_CWORD )); then COMPREPLY=($(compgen -c -- "$cur"))
        else COMPREPLY=($(compgen -f -- "$cur")); fi
        return
      fi
    done
  fi
  case $command in
${cases}
    *) return ;;
  esac
  case $prev in
    --store-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    -o|--output) COMPREPLY=($(compgen -W "table json name" -- "$cur")); return ;;
    ${[...new Set(withValue)].join("|")}) return ;;
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$cur")); return; fi
  if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); return; fi
  if (( names )); then local IFS=$'\\n'; COMPREPLY=($(compgen -W "$(${NAMES})" -- "$cur")); fi
}
complete -F _ringfence ringfence
`;
}

function zshScript(commands: readonly Described[]): string {
  const summaries = commands.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, options, takesName, words }) => {
    const specs = options.map((option) => `        ${quote(zshSpec(option))}`);
    if (takesName) specs.push("        '1:lock name:_ringfence_names'");
    if (words.length > 0) specs.push(`        '1:shell:(${words.join(" ")})'`);
    if (name === "run") specs.push("        '*::command:_normal'");
    return `      ${name}) _arguments -s \\\n${specs.join(" \\\n")} ;;`;
  });
  return `#compdef ringfence
_ringfence_names() {
  local -a names=("\${(@f)$(${NAMES})}")
  compadd -a names
}
_ringfence() {
  local -a commands=(
${summaries.join("\n")}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local command=\${words[2]}
  shift words; (( CURRENT-- ))
  case $command in
${cases.join("\n")}
  esac
}
compdef _ringfence ringfence
`;
}

function zshSpec(option: Option): string {
  const flags = [option.short, option.long].filter((flag) => flag !== undefined);
  const value = !option.required
    ? ""
    : option.argChoices !== undefined
      ? `:format:(${option.argChoices.join(" ")})`
      : option.long === "--store-file"
        ? ":file:_files"
        : ":value: ";
  const [flag = ""] = flags.slice(-1);
  return `${flag}[${option.description.replace(/[[\]]/g, "")}]${value}`;
}

function fishScript(commands: readonly Described[]): string {
  const lines = ["# fish completion of ringfence", "complete -c ringfence -f"];
  for (const { name, summary, options, takesName, words } of commands) {
    lines.push(
      `complete -c ringfence -n __fish_use_subcommand -a ${name} -d ${quote(summary)}`,
      ...options.map((option) => `complete -c ringfence -n ${within(name)} ${fishOption(option)}`),
    );
    if (takesName) lines.push(`complete -c ringfence -n ${within(name)} -a '(${NAMES})'`);
    if (words.length > 0)
      lines.push(`complete -c ringfence -n ${within(name)} -a ${quote(words.join(" "))}`);
  }
  // After run's -- another command begins, with its own completions.
  lines.push(
    "complete -c ringfence -n 'contains -- -- (commandline -opc)' -F -a '(__fish_complete_command)'",
  );
  return `${lines.join("\n")}\n`;
}

function within(name: string): string {
  return quote(`__fish_seen_subcommand_from ${name}`);
}

function fishOption(option: Option): string {
  const parts: string[] = [];
  if (option.short !== undefined) parts.push(`-s ${option.short.slice(1)}`);
  if (option.long !== undefined) parts.push(`-l ${option.long.slice(2)}`);
  if (option.required) parts.push("-x");
  if (option.long === "--store-file") parts.push("-F");
  if (option.argChoices !== undefined) parts.push(`-a ${quote(option.argChoices.join(" "))}`);
  return `${parts.join(" ")} -d ${quote(option.description)}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
