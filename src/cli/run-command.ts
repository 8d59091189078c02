import { yieldToInit } from "./init.ts";
import { Messages } from "./messages.ts";
import { type RunOptions, runSettings } from "./run-settings.ts";
import { runUnderLock } from "./run-under-lock.ts";

/** Does what a parsed `ringfence run` says. Resolves to the exit code. */
export async function runCommand(
  name: string,
  words: readonly string[],
  options: RunOptions,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const settings = runSettings(name, words, options, env);
  yieldToInit();
  const messages = new Messages(settings.level);
  try {
    return await runUnderLock(settings, env, messages);
  } finally {
    await messages.flush();
  }
}
