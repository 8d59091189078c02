/**
 * One rider, a process of its own: `rider.cjs <arm> <role> <locks file> <data file>`, with a channel to the story-teller.
 * The first rider stops itself between reading and acting, as a full disk, a debugger or a sleeping machine would stop
 * it; so no transaction of SQLite is ever open then. The story-teller wakes it.
 */
import { StaleTokenError } from "../../core/errors.ts";
import type { FencedLease } from "../../core/lease.ts";
import { sqliteDriver } from "../../drivers/sqlite/index.ts";
import { sqliteGuard } from "../../guards/sqlite/index.ts";
import { createLockManager } from "../../index.ts";
import { pause } from "../stdio.ts";
import { ORDER, Parcel } from "./parcel.ts";
import { type Arm, lineOf, type Report, type Role, TTL_MS } from "./script.ts";

/** SIGSTOP reaches every thread of a process within this time. */
const STOP_MS = 100;

const [arm, role, locksFile = "", dataFile = ""] = process.argv.slice(2) as [
  Arm,
  Role,
  string?,
  string?,
];
const guard = sqliteGuard();
process.on("disconnect", () => {
  process.exit(1);
});

const manager = createLockManager(sqliteDriver(locksFile), {
  ttl: TTL_MS,
  holder: { label: role },
});
void ride();

/** One rider's part of the story, from the lock to the end of its process. */
async function ride(): Promise<void> {
  const parcel = await Parcel.open(dataFile);
  const lease = await manager.acquire(ORDER);
  await report({ what: "took", token: lease.token.toString(), takenOver: lease.takenOver });
  if (arm === "claim") {
    await guard.claim(parcel.db, ORDER, lease);
    await report({ what: "claimed" });
  }
  const seen = arm === "no check" ? String(parcel.handovers()) : parcel.record();
  await report({ what: "read", text: seen });
  if (role === "rider 1") await stop();
  else if (arm !== "no check") await told();
  await report(act(parcel, seen, lease));
  await lease.release();
  await manager.close();
  parcel.close();
  process.disconnect();
}

/** Does what the rider came for, on what it read before. */
function act(parcel: Parcel, seen: string, held: FencedLease): Report {
  const text = `${seen}${lineOf(role)}\n`;
  if (arm === "no check") {
    parcel.handOver(role);
    return { what: "acted", accepted: true, why: "nobody checks" };
  }
  if (arm === "token on write") {
    const accepted = parcel.writeIfNotOlder(text, held.token);
    return { what: "acted", accepted, why: "no larger token has written yet" };
  }
  try {
    parcel.transaction(() => {
      // The sequencer, as another server would show it: so the database decides, not this process's clock.
      guard.verify(parcel.db, ORDER, held.sequencer);
      parcel.write(text);
    });
    return { what: "acted", accepted: true, why: "its claim stands" };
  } catch (error) {
    if (!(error instanceof StaleTokenError)) throw error;
    const highest = error.highest === null ? "nobody" : error.highest.toString();
    return { what: "acted", accepted: false, why: `claimed by ${highest} since` };
  }
}

/** Stops this process until somebody wakes it. */
async function stop(): Promise<void> {
  await report({ what: "stops" });
  process.kill(process.pid, "SIGSTOP");
  // The signal may reach this thread a moment later: it must not go on in that moment.
  await pause(STOP_MS);
  await report({ what: "wakes" });
}

async function report(what: Report): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.send?.(what, undefined, undefined, (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}

/** Waits for the story-teller's word. */
async function told(): Promise<void> {
  await new Promise<void>((resolve) => {
    process.once("message", () => {
      resolve();
    });
  });
}
