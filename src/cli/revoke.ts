import { createInterface } from "node:readline/promises";
import { isatty } from "node:tty";
import { describeHolder } from "../core/holder.ts";
import type { LockInfo } from "../core/lock-manager.ts";
import { systemClock } from "../runtime/system-clock.ts";
import type { CommandModule } from "./command-module.ts";
import { EXIT, ExitError } from "./exit-codes.ts";
import { withExamples, withExitCodes, withSection } from "./help.ts";
import { showLock } from "./lock-view.ts";
import type { StoreOptions } from "./store.ts";
import { withStore } from "./with-store.ts";

interface RevokeOptions extends StoreOptions {
  readonly reason: string;
  readonly grantId?: string;
  readonly now?: boolean;
  readonly yes?: boolean;
}

/** `ringfence revoke NAME --reason R` */
export const revoke: CommandModule = {
  name: "revoke",
  summary: "take a lock from its holder",
  define(command, act) {
    command.argument("<name>", "the lock's name");
    withStore(command)
      .optionsGroup("Options:")
      .requiredOption("--reason <text>", "why, for the record")
      .option("--grant-id <id>", "this grant and no other (needed with several holders)")
      .option("--now", "do not wait for the lock-delay")
      .option("-y, --yes", "do not ask");
    withExamples(command, [
      ["ringfence revoke nightly --reason 'host is gone'", "shows the holder and asks"],
      ["ringfence revoke nightly --reason gone --yes", "in a script"],
    ]);
    withSection(
      command,
      "What it does",
      `  It frees one grant: the one that was shown, or --grant-id, never the next holder's.
  The holder learns of it at its next renewal, at most a third of its ttl later, and may
  act until then. Who repairs by hand should acquire the lock and claim the resource first.`,
    );
    withExitCodes(command, [
      ["0", "revoked"],
      ["1", "nothing was revoked: nobody held it, or the answer was no"],
      ["64, 69, 78", "wrong usage; the store cannot be reached; wrong configuration"],
    ]);
    command.action((name: string, options: RevokeOptions) => {
      act(async (invocation) => {
        const asks = isatty(0) && isatty(2);
        if (options.yes !== true && !asks)
          throw new ExitError(EXIT.usage, "there is no terminal to ask on: say --yes");
        const { withManager } = await import("./with-manager.ts");
        return withManager(options, invocation, async (manager) => {
          const info = await manager.inspect(name);
          const grantId = options.grantId ?? onlyGrant(info, name);
          if (grantId === null) {
            invocation.messages.note(`nobody holds ${name}`);
            return EXIT.nothing;
          }
          if (options.yes !== true && !(await confirm(info, name))) return EXIT.nothing;
          const { reason, now } = options;
          const { revoked } = await manager.revoke(name, { reason, grantId, now: now === true });
          invocation.messages.note(
            revoked === null
              ? `grant ${grantId} does not hold ${name} any more`
              : `revoked ${name} from ${describeHolder(revoked)}`,
          );
          return revoked === null ? EXIT.nothing : EXIT.done;
        });
      });
    });
  },
};

/** The grant that whoever typed the command has seen, or would see. */
function onlyGrant(info: LockInfo, name: string): string | null {
  if (info.held.length > 1)
    throw new ExitError(
      EXIT.usage,
      `${name} has ${info.held.length} holders: name one with --grant-id (\`ringfence inspect\` shows them)`,
    );
  return info.held[0]?.grantId ?? null;
}

async function confirm(info: LockInfo, name: string): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  // ^C and ^D are answers too.
  const cut = new AbortController();
  lines.on("close", () => {
    cut.abort();
  });
  try {
    process.stderr.write(showLock(info, name, "table", systemClock.wall()));
    const answer = await lines.question("Revoke it? [y/N] ", { signal: cut.signal });
    return /^y(es)?$/i.test(answer.trim());
  } catch (error) {
    if (cut.signal.aborted) return false;
    throw error;
  } finally {
    lines.close();
  }
}
