import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { Host } from "../core/driver.ts";

let known: Host | undefined;

/** This process, its boot and its time namespace; read once. */
export function processIdentity(): Host {
  known ??= {
    id: `${process.pid.toString(36)}-${randomBytes(9).toString("base64url")}`,
    name: hostname(),
    pid: process.pid,
    bootId: bootId(),
    timeNamespace: timeNamespace(),
  };
  return known;
}

/** Linux and macOS tell which boot this is; elsewhere nobody does. */
function bootId(): string | null {
  try {
    if (process.platform === "linux")
      return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    if (process.platform === "darwin")
      return execFileSync("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], {
        encoding: "utf8",
      }).trim();
  } catch {
    // Hidden by a sandbox: then nobody can tell one boot from another.
  }
  return null;
}

/** Processes in different time namespaces read different monotonic clocks under one boot id. */
function timeNamespace(): string | null {
  if (process.platform !== "linux") return "host";
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch (error) {
    // A kernel without time namespaces (before 5.6) has one clock for all.
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "host" : null;
  }
}
