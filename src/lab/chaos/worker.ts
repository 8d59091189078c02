/** Clients of a scenario in a process of their own, which the supervisor stops, kills and cuts off. */
import { Journal } from "./journal.ts";
import type { Said, Told, WorkerSetup } from "./messages.ts";
import { Performer } from "./performer.ts";

const setup = JSON.parse(process.argv[2] ?? "{}") as WorkerSetup;
const journal = new Journal(setup.file, setup.ops);
const performers = new Map(
  setup.names.map((name) => [name, new Performer(setup, journal, name)] as const),
);
/** What goes on when the supervisor says so, by the number of the task that it is in. */
const stopped = new Map<number, () => void>();

function say(said: Said): void {
  process.send?.(said);
}

/** The answer to a task: what it came to, or why it failed. */
function answer(n: number, work: Promise<unknown>): void {
  work.then(
    (result) => {
      say({ n, result: result ?? null });
    },
    (error: unknown) => {
      say({ n, error: error instanceof Error ? error.message : String(error) });
    },
  );
}

async function perform(n: number, told: Extract<Told, { readonly as: string }>): Promise<unknown> {
  const performer = performers.get(told.as);
  if (performer === undefined) throw new Error(`no client ${told.as}`);
  return await performer.perform(
    told,
    async (stopMs) =>
      new Promise((resolve) => {
        stopped.set(n, resolve);
        say({ n, stopMs });
      }),
  );
}

process.on("message", (told: Told) => {
  const { n } = told;
  if (told.do !== "go on") {
    answer(n, perform(n, told));
    return;
  }
  stopped.get(n)?.();
  stopped.delete(n);
});
// The supervisor is gone: nobody needs this process any more.
process.on("disconnect", () => process.exit(0));
answer(0, Promise.all([...performers.values()].map(async (each) => each.warmUp())));
