import { InvalidArgumentError } from "../core/errors.ts";
import type { LockInfo } from "../core/lock-manager.ts";
import { systemClock } from "../runtime/system-clock.ts";
import type { CommandModule } from "./command-module.ts";
import { EXIT, exitCodeOf } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { showLock } from "./lock-view.ts";
import { type OutputOptions, withOutput } from "./output-option.ts";
import { writeOut } from "./stdio.ts";
import type { StoreOptions } from "./store.ts";
import { withStore } from "./with-store.ts";

interface InspectOptions extends StoreOptions, OutputOptions {
  readonly quiet?: boolean;
}

/** `ringfence inspect NAME` */
export const inspect: CommandModule = {
  name: "inspect",
  summary: "show one lock",
  define(command, act) {
    command.argument("<name>", "the lock's name");
    withOutput(withStore(command), ["table", "json"]).option(
      "-q, --quiet",
      "print nothing, answer with the exit code",
    );
    withExamples(command, [
      ["ringfence inspect nightly", "who holds it, since when, who waits"],
      ["ringfence inspect -q nightly && echo busy", "in a script"],
    ]);
    withExitCodes(command, [
      ["0", "shown; with -q: held"],
      ["1", "with -q: free"],
      ["64", "wrong usage"],
      ["69", "the store cannot be reached; with -q also 78's cases: nobody can say"],
      ["78", "wrong configuration"],
    ]);
    command.action((name: string, options: InspectOptions) => {
      act(async (invocation) => {
        const ask = async (): Promise<LockInfo> => {
          const { withManager } = await import("./with-manager.ts");
          return withManager(options, invocation, async (manager) => manager.inspect(name));
        };
        if (options.quiet !== true) {
          await writeOut(showLock(await ask(), name, options.output, systemClock.wall()));
          return EXIT.done;
        }
        try {
          return (await ask()).held.length > 0 ? EXIT.done : EXIT.nothing;
        } catch (error) {
          // Neither "held" nor "free" must be read from a question that was never answered.
          if (error instanceof InvalidArgumentError || exitCodeOf(error) === EXIT.usage)
            throw error;
          invocation.messages.error(error instanceof Error ? error.message : String(error));
          return EXIT.unavailable;
        }
      });
    });
  },
};
