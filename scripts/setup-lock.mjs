// One set-up at a time in one folder, also after any of them was killed.
//
// The lock is the newest of the files 1, 2, 3, … in a folder. Each holds the pid of its owner, and the start time of
// that process where the system tells it; an emptied file was released. Whoever sees that the newest owner is gone
// makes the next file with link(2), which only one can do, and then looks again: a late-comer that re-made a number
// that was tidied away sees a newer one and withdraws. Removing a stale file and making it again would let two in: the
// second remover may remove the first one's new file.
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Runs `work` while no other process runs one under the same folder. `onWait` hears once whom we wait for. */
export async function locked(folder, work, onWait = () => undefined) {
  mkdirSync(folder, { recursive: true });
  const mine = join(folder, `pid-${process.pid}`);
  writeFileSync(mine, identityOf(process.pid));
  try {
    let held = take(folder, mine);
    for (let told = false; held === null; held = take(folder, mine)) {
      const owner = newest(folder).owner.split(" ")[0];
      if (!told && owner !== "") {
        onWait(owner);
        told = true;
      }
      await new Promise((done) => setTimeout(done, 100));
    }
    try {
      return await work();
    } finally {
      writeFileSync(join(folder, String(held)), "");
    }
  } finally {
    rmSync(mine, { force: true });
  }
}

function take(folder, mine) {
  const { number, owner } = newest(folder);
  if (isAlive(owner)) return null;
  try {
    linkSync(mine, join(folder, String(number + 1)));
  } catch (error) {
    if (error.code === "EEXIST") return null;
    throw error;
  }
  const now = newest(folder).number;
  if (now !== number + 1) {
    rmSync(join(folder, String(number + 1)), { force: true });
    return null;
  }
  for (const name of readdirSync(folder))
    if (/^\d+$/.test(name) && Number(name) < now) rmSync(join(folder, name), { force: true });
  return now;
}

function newest(folder) {
  const numbers = readdirSync(folder).filter((name) => /^\d+$/.test(name));
  const number = Math.max(0, ...numbers.map(Number));
  try {
    return { number, owner: number === 0 ? "" : readFileSync(join(folder, `${number}`), "utf8") };
  } catch {
    // tidied away since the listing: a newer one exists, look again
    return newest(folder);
  }
}

function isAlive(owner) {
  const pid = Number(owner.split(" ")[0]);
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== "EPERM") return false;
  }
  return identityOf(pid) === owner;
}

/** The pid and, on Linux, when it started, so that a pid that was given out again is not taken for the owner. */
function identityOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return `${pid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`;
  } catch {
    return String(pid);
  }
}
