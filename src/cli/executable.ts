import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { EXIT, ExitError } from "./exit-codes.ts";

/** Where the system looks when PATH is not set. */
const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * Looks a command up as the system will, so that a misspelt one fails at once instead of after a long wait for the lock.
 * @throws ExitError 127 when there is none, 126 when it is there and cannot be executed
 */
export function checkExecutable(command: string, env: NodeJS.ProcessEnv): void {
  if (command === "") throw new ExitError(EXIT.notFound, "the command is empty");
  if (process.platform === "win32") return;
  const places = command.includes("/")
    ? [command]
    : (env["PATH"] ?? DEFAULT_PATH).split(delimiter).map((folder) => join(folder || ".", command));
  let refused: string | undefined;
  for (const place of places) {
    const found = look(place);
    if (found === "executable") return;
    if (found === "refused") refused ??= place;
  }
  if (refused !== undefined)
    throw new ExitError(EXIT.cannotExecute, `${refused}: cannot be executed`);
  throw new ExitError(EXIT.notFound, `${command}: command not found`);
}

function look(path: string): "executable" | "refused" | "absent" {
  try {
    // Most folders of a PATH do not have it, and an error takes longer to make than the rest of the search.
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return "absent";
    if (found.isDirectory()) return "refused";
    accessSync(path, constants.X_OK);
    return "executable";
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" || code === "ENOTDIR" ? "absent" : "refused";
  }
}
