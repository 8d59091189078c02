import { execFileSync } from "node:child_process";
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { endianness } from "node:os";
import { join } from "node:path";

/**
 * Moves the wall clock of a process that it is preloaded into, by the nanoseconds (eight bytes in the machine's own order)
 * in the file that WALL_CLOCK_FILE names. The file is mapped, so whoever writes it steps the clock of a running process.
 * The monotonic and boot clocks stay as they are. It asks the kernel directly and uses neither malloc nor dlsym, so that
 * it works from the first instruction on, in Redis and Node alike.
 */
const SHIM = /* c */ `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static int64_t none;
static volatile int64_t *offset;

static int64_t added(void) {
  if (offset == NULL) {
    volatile int64_t *found = &none;
    const char *path = getenv("WALL_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
      if (page != MAP_FAILED) found = page;
      close(file);
    }
    offset = found;
  }
  return *offset;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (syscall(SYS_clock_gettime, clock, time) != 0) return -1;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    int64_t ns = time->tv_sec * SECOND + time->tv_nsec + added();
    time->tv_sec = ns / SECOND;
    time->tv_nsec = ns % SECOND;
  }
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec time;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
`;

/** Whether a shim can be made and preloaded here: it takes Linux and a C compiler. */
export function canMoveWallClocks(): boolean {
  if (process.platform !== "linux") return false;
  try {
    execFileSync("cc", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Compiles the shim into a folder; returns its path. @throws when there is no C compiler */
export function compileShim(folder: string): string {
  const shim = join(folder, "wall-clock.so");
  const flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", shim, "-x", "c", "-"];
  execFileSync("cc", flags, { input: SHIM });
  return shim;
}

/** The wall clock of some processes, which is moved while they run. */
export class WallClock {
  /** What those processes are started with, beside the rest of their environment. */
  readonly env: NodeJS.ProcessEnv;
  readonly #file: string;

  constructor(shim: string, file: string) {
    this.#file = file;
    writeFileSync(file, Buffer.alloc(8));
    this.env = { LD_PRELOAD: shim, WALL_CLOCK_FILE: file };
  }

  /** Sets how far the clock is ahead of the real one, in milliseconds. */
  set(aheadMs: number): void {
    const bytes = Buffer.alloc(8);
    const ns = BigInt(aheadMs) * 1_000_000n;
    if (endianness() === "LE") bytes.writeBigInt64LE(ns);
    else bytes.writeBigInt64BE(ns);
    // In place: whoever has the file mapped sees the new value.
    const file = openSync(this.#file, "r+");
    writeSync(file, bytes, 0, 8, 0);
    closeSync(file);
  }
}
