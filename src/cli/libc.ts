import { closeSync, openSync, readSync } from "node:fs";

/** Where a program names its loader: among its first bytes. */
const HEAD_BYTES = 4096;

/**
 * Makes `process.report` short for the rest of this process. libsql asks it which C library this is, and nothing else; a
 * whole report, with stacks and handles for people who look for a crash, takes 5 to 8 ms, more than to take a lock.
 */
export function shortenReport(): void {
  const loader = process.platform === "linux" ? loaderOf(process.execPath) : undefined;
  if (loader === undefined) return;
  const header = loader === "glibc" ? { glibcVersionRuntime: "not asked for" } : {};
  const report = { header, sharedObjects: loader === "musl" ? ["ld-musl-"] : [] };
  process.report.getReport = () => report;
}

/** Whose dynamic loader the program names; `undefined` where that is not to be seen. */
function loaderOf(program: string): "glibc" | "musl" | undefined {
  const head = Buffer.alloc(HEAD_BYTES);
  try {
    const file = openSync(program, "r");
    try {
      readSync(file, head);
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
  if (head.includes("/ld-musl-")) return "musl";
  return head.includes("/ld-linux") ? "glibc" : undefined;
}
