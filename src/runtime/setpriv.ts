import { accessSync, constants, readFileSync } from "node:fs";

/**
 * The path of a `setpriv` that knows `--pdeathsig`, with which the kernel ends a child when its parent is killed.
 * Busybox and old systems have one that does not: its text tells, without the price of a process.
 */
export function findSetpriv(): string | null {
  if (process.platform !== "linux") return null;
  const path = ["/usr/bin/setpriv", "/bin/setpriv"].find(isExecutable);
  return path !== undefined && readFileSync(path).includes("pdeathsig") ? path : null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
