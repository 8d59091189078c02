import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../runtime/system-clock.ts";
import { codeOfSignal } from "../signals.ts";
import { writeOut } from "../stdio.ts";
import { Parcel } from "./parcel.ts";
import { Rider } from "./riders.ts";
import { type Arm, lineOf, type Report, type Role, TTL_MS } from "./script.ts";

const INTRODUCTION = `\
One parcel, two riders

Order 881 is to be handed over once. Whoever delivers it holds the lock on it, by a
lease of ${TTL_MS / 1000} s that is renewed while its holder runs. Rider 1 takes the order and is
then stopped, in the middle of its work, for longer than that: SIGSTOP here, elsewhere a
full disk, a paused virtual machine, a laptop that sleeps. Rider 2 takes over, as it
should. Then rider 1 wakes and goes on where it was. Two real processes, one real lock;
only what the shop's database checks differs.
`;

/** What an arm came to, as the database and the riders tell it. */
interface Ending {
  readonly tokens: Readonly<Record<Role, bigint>>;
  readonly accepted: Readonly<Record<Role, boolean>>;
  readonly handovers: number;
  /** Lines of riders in the delivery record. */
  readonly lines: readonly string[];
}

interface Chapter {
  readonly arm: Arm;
  readonly title: string;
  readonly asTold: (ending: Ending) => boolean;
  readonly lesson: string;
}

const CHAPTERS: readonly Chapter[] = [
  {
    arm: "no check",
    title: "The database checks nothing",
    asTold: ({ handovers }) => handovers === 2,
    lesson:
      "The parcel was handed over twice: a lock that has run out stops nobody who does not look.",
  },
  {
    arm: "token on write",
    title: "The database checks the token of each write",
    asTold: ({ tokens, accepted, lines }) =>
      tokens["rider 1"] < tokens["rider 2"] &&
      accepted["rider 1"] &&
      accepted["rider 2"] &&
      lines.length === 1,
    lesson:
      "Both writes passed, no token was out of order, and rider 1's line is gone: rider 2 had\nread before it. A check on write alone comes too late for what was read before.",
  },
  {
    arm: "claim",
    title: "The database is claimed before the first read: Ringfence's guard",
    asTold: ({ accepted, lines }) =>
      !accepted["rider 1"] && accepted["rider 2"] && lines.join() === lineOf("rider 2"),
    lesson:
      "Rider 1 was refused and knows it: rider 2's claim came before rider 2 read. What was\naccepted is there, what is not there was refused.",
  },
];

/** Tells all three, with real processes in a folder of their own. Whether each ended as told. */
export async function tellStory(env: NodeJS.ProcessEnv): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), "ringfence-demo-"));
  const riders = new Set<Rider>();
  const cleanUp = async (): Promise<void> => {
    await Promise.all([...riders].map(async (rider) => rider.kill()));
    rmSync(folder, { recursive: true, force: true });
  };
  const stop = (signal: NodeJS.Signals): void => {
    void cleanUp().finally(() => {
      process.exit(codeOfSignal(signal));
    });
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
  try {
    await writeOut(INTRODUCTION);
    let allAsTold = true;
    for (const [i, chapter] of CHAPTERS.entries()) {
      await writeOut(`\n${i + 1}. ${chapter.title}\n\n`);
      const own = join(folder, String(i + 1));
      mkdirSync(own);
      const ending = await play(chapter.arm, own, env, riders);
      const asTold = chapter.asTold(ending);
      allAsTold &&= asTold;
      await writeOut(
        `\n${asTold ? chapter.lesson : `NOT AS TOLD: ${JSON.stringify(plain(ending))}`}\n`,
      );
    }
    await writeOut("\nMore: ringfence --help, and docs/ in the package.\n");
    return allAsTold;
  } finally {
    await cleanUp();
  }
}

/** One arm. The order of steps is the same each time; what they do to the parcel is the riders' and the database's. */
async function play(
  arm: Arm,
  folder: string,
  env: NodeJS.ProcessEnv,
  riders: Set<Rider>,
): Promise<Ending> {
  const timeline = new Timeline();
  const hear = (role: Role, report: Report): void => {
    timeline.add(arm, role, report);
  };
  const start = (role: Role): Rider => {
    const rider = new Rider(arm, role, folder, env, hear);
    riders.add(rider);
    return rider;
  };
  const first = start("rider 1");
  await first.said("took");
  // It queues while rider 1 still holds the lock.
  const second = start("rider 2");
  await first.said("stops");
  await second.said("read");
  if (arm === "no check") await second.said("acted");
  first.wake();
  const acted = await first.said("acted");
  if (arm !== "no check") second.tell();
  const secondActed = await second.said("acted");
  await Promise.all([first.ended(), second.ended()]);
  await timeline.written();
  const parcel = await Parcel.open(join(folder, "shop.db"));
  try {
    return {
      tokens: {
        "rider 1": BigInt((await first.said("took")).token),
        "rider 2": BigInt((await second.said("took")).token),
      },
      accepted: { "rider 1": acted.accepted, "rider 2": secondActed.accepted },
      handovers: parcel.handovers(),
      lines: parcel.record().split("\n").filter(Boolean),
    };
  } finally {
    parcel.close();
  }
}

/** The lines of one arm, written as they happen. */
class Timeline {
  readonly #startMs = systemClock.mono();
  #written: Promise<void> = Promise.resolve();

  add(arm: Arm, role: Role, report: Report): void {
    const at = ((systemClock.mono() - this.#startMs) / 1000).toFixed(2).padStart(7);
    const line = `${at} s  ${role}  ${sentence(arm, report)}\n`;
    this.#written = this.#written.then(async () => writeOut(line));
    // A reader that went away is told by `written`.
    this.#written.catch(() => undefined);
  }

  async written(): Promise<void> {
    await this.#written;
  }
}

function sentence(arm: Arm, report: Report): string {
  switch (report.what) {
    case "took":
      return (
        `takes the order${report.takenOver ? " over" : ""}`.padEnd(30) + `token ${report.token}`
      );
    case "claimed":
      return "claims it at the database";
    case "read":
      return arm === "no check"
        ? `reads: handed over ${report.text} times`
        : `reads the record: ${report.text === "" ? "empty" : report.text.trim()}`;
    case "stops":
      return "... is stopped (SIGSTOP)";
    case "wakes":
      return "... wakes (SIGCONT) and goes on";
    case "acted": {
      const what = arm === "no check" ? "hands the parcel over" : "writes its line";
      return what.padEnd(30) + `${report.accepted ? "accepted" : "REFUSED"}: ${report.why}`;
    }
  }
}

function plain(ending: Ending): unknown {
  const [first, second] = [ending.tokens["rider 1"], ending.tokens["rider 2"]];
  return { ...ending, tokens: [first.toString(), second.toString()] };
}
