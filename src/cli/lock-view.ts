import { describeHolder, type Holder } from "../core/holder.ts";
import type { HeldInfo, LockInfo, PendingInfo, QueryResult } from "../core/lock-manager.ts";
import { showAge } from "./age.ts";
import { renderTable } from "./table.ts";

/** How `-o` shows things. */
export type Format = "table" | "json" | "name";

const HEADER = ["NAME", "STATE", "MODE", "HOLDER", "SINCE", "EXPIRES", "TOKEN", "GRANT"];

/** Everything that is held or waited for, one row a lease or waiter. */
export function showQuery(result: QueryResult, format: Format, nowMs: number): string {
  if (format === "json") return `${JSON.stringify(queryJson(result))}\n`;
  if (format === "name") {
    const names = [...result.held, ...result.pending].map(({ name }) => name);
    return [...new Set(names)].map((name) => `${name}\n`).join("");
  }
  const rows = [
    ...result.held.map((lease) => heldRow(lease, nowMs)),
    ...result.pending.map(pendingRow),
  ];
  // Waiters stand under the lease that they wait for, in their order.
  rows.sort(([a = ""], [b = ""]) => (a < b ? -1 : a > b ? 1 : 0));
  return renderTable(HEADER, rows);
}

/** What a program reads: durations in milliseconds, times in ISO 8601, tokens as decimal strings. */
export function queryJson(result: QueryResult): Record<string, unknown> {
  return {
    held: result.held.map(heldJson),
    pending: result.pending.map(pendingJson),
    truncated: result.truncated,
  };
}

/** One lock. */
export function showLock(info: LockInfo, name: string, format: Format, nowMs: number): string {
  if (format === "name") return `${name}\n`;
  if (format === "json") return `${JSON.stringify(lockJson(info, name))}\n`;
  const lines: (readonly [string, string])[] = [
    ["name", name],
    ["state", stateOf(info)],
  ];
  if (info.mode !== null)
    lines.push(["mode", info.mode === "permits" ? `${info.permits} permits` : info.mode]);
  for (const lease of info.held) {
    lines.push(["holder", describeHolder(lease.holder)], ["  grant", lease.grantId]);
    if (lease.token !== null) lines.push(["  token", lease.token.toString()]);
    if (lease.sinceMs !== null) lines.push(["  since", age(nowMs - lease.sinceMs)]);
    if (lease.remainingMs !== null) lines.push(["  expires", `in ${showAge(lease.remainingMs)}`]);
  }
  for (const waiter of info.pending) lines.push(["waits", describeHolder(waiter.holder)]);
  if (info.truncated) lines.push(["waits", "and more"]);
  const width = Math.max(...lines.map(([key]) => key.length));
  return lines.map(([key, value]) => `${key.padEnd(width)}  ${value}\n`).join("");
}

function stateOf(info: LockInfo): string {
  if (info.held.length > 0) return "held";
  return info.lockDelayMs > 0 ? `free after a lock-delay of ${showAge(info.lockDelayMs)}` : "free";
}

function lockJson(info: LockInfo, name: string): Record<string, unknown> {
  return {
    name,
    mode: info.mode,
    permits: info.permits,
    held: info.held.map(heldJson),
    pending: info.pending.map(pendingJson),
    lockDelayMs: info.lockDelayMs,
    truncated: info.truncated,
  };
}

function heldRow(lease: HeldInfo, nowMs: number): string[] {
  return [
    lease.name,
    "held",
    lease.mode,
    describeHolder(lease.holder),
    lease.sinceMs === null ? "-" : age(nowMs - lease.sinceMs),
    lease.remainingMs === null ? "-" : showAge(lease.remainingMs),
    lease.token?.toString() ?? "-",
    lease.grantId,
  ];
}

function pendingRow(waiter: PendingInfo): string[] {
  const holder = describeHolder(waiter.holder);
  return [waiter.name, "waits", "-", holder, "-", "-", "-", waiter.grantId];
}

function heldJson(lease: HeldInfo): Record<string, unknown> {
  return {
    name: lease.name,
    mode: lease.mode,
    grantId: lease.grantId,
    token: lease.token?.toString() ?? null,
    holder: holderJson(lease.holder),
    since: lease.sinceMs === null ? null : new Date(lease.sinceMs).toISOString(),
    remainingMs: lease.remainingMs === null ? null : Math.round(lease.remainingMs),
  };
}

function pendingJson(waiter: PendingInfo): Record<string, unknown> {
  return { name: waiter.name, grantId: waiter.grantId, holder: holderJson(waiter.holder) };
}

function holderJson({ label, host, pid, metadata }: Holder): Record<string, unknown> {
  return { label, host, pid, metadata };
}

function age(ms: number): string {
  return `${showAge(ms)} ago`;
}
