import { isatty } from "node:tty";
import { parseDuration } from "../core/duration.ts";
import { systemClock } from "../runtime/system-clock.ts";
import type { CommandModule } from "./command-module.ts";
import { withExamples, withExitCodes } from "./help.ts";
import { queryJson, showQuery } from "./lock-view.ts";
import { type ListOptions, MAX_LIMIT } from "./ls.ts";
import { withOutput } from "./output-option.ts";
import { pause, writeOut } from "./stdio.ts";
import { wholeNumber } from "./whole-number.ts";
import { withStore } from "./with-store.ts";

interface WatchOptions extends ListOptions {
  readonly interval: string;
}

const CLEAR_SCREEN = "\u001B[H\u001B[2J";

/** `ringfence watch`: ends by a signal, or when nobody reads on. */
export const watch: CommandModule = {
  name: "watch",
  summary: "watch the locks change",
  define(command, act) {
    withOutput(withStore(command), ["table", "json"])
      .optionsGroup("Options:")
      .option("--prefix <text>", "only names that begin so")
      .option("--limit <n>", `at most n names, up to ${MAX_LIMIT}`, "1000")
      .option("--interval <duration>", "how often to look", "1s");
    withExamples(command, [
      ["ringfence watch", "a table that is drawn again each second"],
      ["ringfence watch -o json", "a line of JSON whenever something changed"],
    ]);
    withExitCodes(command, [
      ["130, 143", "ended by ^C or TERM, the usual end"],
      ["64, 69, 78", "wrong usage; the store cannot be reached; wrong configuration"],
    ]);
    command.action((options: WatchOptions) => {
      act(async (invocation) => {
        const limit = wholeNumber("--limit", options.limit, { min: 1, max: MAX_LIMIT });
        const bounds = { min: 100, max: 3_600_000 };
        const intervalMs = parseDuration("--interval", options.interval, bounds);
        const { withManager } = await import("./with-manager.ts");
        const { prefix = "", output } = options;
        const redraws = output === "table" && isatty(1) && process.env["TERM"] !== "dumb";
        return withManager(options, invocation, async (manager) => {
          let last = "";
          for (;;) {
            const result = await manager.query({ prefix, limit });
            const nowMs = systemClock.wall();
            const state = queryJson(result);
            // How long a lease still runs changes with every look: that is no change.
            const text = JSON.stringify(state, (key, value: unknown) =>
              key === "remainingMs" ? undefined : value,
            );
            if (redraws) await writeOut(CLEAR_SCREEN + showQuery(result, output, nowMs));
            else if (text !== last)
              await writeOut(
                output === "json"
                  ? `${JSON.stringify({ at: new Date(nowMs).toISOString(), ...state })}\n`
                  : `${showQuery(result, output, nowMs)}\n`,
              );
            last = text;
            await pause(intervalMs);
          }
        });
      });
    });
  },
};
