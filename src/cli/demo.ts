import type { CommandModule } from "./command-module.ts";
import { EXIT } from "./exit-codes.ts";
import { withExamples, withExitCodes } from "./help.ts";

/** `ringfence demo`: the story that says what this package is for. */
export const demo: CommandModule = {
  name: "demo",
  summary: "one parcel, two riders: why a lock alone is not enough",
  define(command, act) {
    withExamples(command, [["ringfence demo", "three endings of one story, in about ten seconds"]]);
    withExitCodes(command, [
      ["0", "all three ended as told"],
      ["1", "one did not"],
    ]);
    command.action(() => {
      act(async ({ env }) => {
        const { tellStory } = await import("./demo/story.ts");
        return (await tellStory(env)) ? EXIT.done : EXIT.nothing;
      });
    });
  },
};
