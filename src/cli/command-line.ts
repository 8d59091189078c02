import { EXIT, exitCodeOf } from "./exit-codes.ts";
import { Messages } from "./messages.ts";
import { parsePlainRun } from "./run-options.ts";
import { BrokenPipeError } from "./stdio.ts";

/** Runs the command line. Resolves to the exit code; never rejects. */
export async function commandLine(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const messages = new Messages();
  // Node's own listener would write through `process.stderr` (see stdio.ts), and say of SQLite that it is experimental.
  process.removeAllListeners("warning");
  process.on("warning", ({ name, message }) => {
    if (name !== "ExperimentalWarning") messages.note(`${name}: ${message}`);
  });
  try {
    const plain = argv[0] === "run" ? parsePlainRun(argv.slice(1)) : null;
    if (plain === null) return await (await import("./program.ts")).dispatch(argv, env, messages);
    const { runCommand } = await import("./run-command.ts");
    return await runCommand(plain.name, plain.words, plain.options, env);
  } catch (error) {
    return failed(error, messages);
  } finally {
    await messages.flush();
  }
}

function failed(error: unknown, messages: Messages): number {
  // Nobody reads on: as a program that SIGPIPE ended, and as silently.
  if (error instanceof BrokenPipeError) return 141;
  const code = exitCodeOf(error);
  const text = error instanceof Error ? error.message : String(error);
  if (text !== "") messages.error(text);
  if (code === EXIT.internal && error instanceof Error && error.stack !== undefined)
    messages.error(`this is a defect in ringfence, please report it:\n${error.stack}`);
  return code;
}
