import { systemClock } from "../runtime/system-clock.ts";
import type { CommandModule } from "./command-module.ts";
import { EXIT } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { showQuery } from "./lock-view.ts";
import { type OutputOptions, withOutput } from "./output-option.ts";
import { writeOut } from "./stdio.ts";
import type { StoreOptions } from "./store.ts";
import { wholeNumber } from "./whole-number.ts";
import { withStore } from "./with-store.ts";

/** The options that choose which locks are listed. */
export interface ListOptions extends StoreOptions, OutputOptions {
  readonly prefix?: string;
  readonly limit: string;
}

/** The most that one query lists. */
export const MAX_LIMIT = 10_000;

/** `ringfence ls [--prefix P]` */
export const ls: CommandModule = {
  name: "ls",
  summary: "list the locks that are held or waited for",
  define(command, act) {
    withOutput(withStore(command), ["table", "json", "name"])
      .optionsGroup("Options:")
      .option("--prefix <text>", "only names that begin so")
      .option("--limit <n>", `at most n names, up to ${MAX_LIMIT}`, "1000");
    withExamples(command, [
      ["ringfence ls", "everything that is held or waited for"],
      ["ringfence ls --prefix orders/ -o json", "for a program: durations in ms, tokens as text"],
      ["ringfence ls | cut -f1,4", "in a pipe: columns with a tab between them, no header"],
    ]);
    withExitCodes(command, [
      ["0", "listed, also when there is nothing"],
      ["64, 69, 78", "wrong usage; the store cannot be reached; wrong configuration"],
    ]);
    command.action((options: ListOptions) => {
      act(async (invocation) => {
        const limit = wholeNumber("--limit", options.limit, { min: 1, max: MAX_LIMIT });
        const { withManager } = await import("./with-manager.ts");
        const { prefix = "", output } = options;
        const result = await withManager(options, invocation, async (manager) =>
          manager.query({ prefix, limit }),
        );
        await writeOut(showQuery(result, output, systemClock.wall()));
        if (result.truncated)
          invocation.messages.note(`more than ${limit} names: use --prefix or --limit`);
        return EXIT.done;
      });
    });
  },
};
