import { readdirSync, readFileSync } from "node:fs";

/**
 * Signals a process and its descendants, parents first. Descendants can only be found on Linux; elsewhere the process
 * alone is signalled. One that left its parent for init is not found.
 */
export function killTree(pid: number, signal: NodeJS.Signals): void {
  // All are listed before any is signalled: an orphan would be found no more.
  for (const each of [pid, ...descendants(pid)]) {
    try {
      process.kill(each, signal);
    } catch {
      // It has ended already.
    }
  }
}

function descendants(pid: number): number[] {
  const children = childrenOf(pid);
  return [...children, ...children.flatMap(descendants)];
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, "utf8")
        .split(" ")
        .filter((text) => text !== "")
        .map(Number),
    );
  } catch {
    // Ended meanwhile, or no such file on this system.
    return [];
  }
}

/**
 * Whether a process group has a member that can still run. Where an orphan's new parent never reaps (a container
 * without an init), a zombie stays in its group for ever and is nobody to wait for.
 */
export function groupRuns(groupId: number): boolean {
  try {
    process.kill(-groupId, 0);
  } catch {
    return false;
  }
  if (process.platform !== "linux") return true;
  return readdirSync("/proc").some((entry) => /^\d+$/.test(entry) && runsIn(groupId, entry));
}

function runsIn(groupId: number, pid: string): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // pid (command) state parent group …; a command may hold spaces and parentheses.
    const [state = "", , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(group) === groupId && state !== "Z" && state !== "X";
  } catch {
    // Ended meanwhile.
    return false;
  }
}
