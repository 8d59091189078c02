import type { LockRecord } from "./driver.ts";
import { show } from "./duration.ts";
import { InvalidArgumentError } from "./errors.ts";
import { decodeHolder, type Holder } from "./holder.ts";
import { asBackendError } from "./link.ts";
import type { HeldInfo, LockInfo, PendingInfo, QueryResult } from "./lock-manager.ts";
import { checkName } from "./lock-name.ts";
import type { ManagerEngine } from "./manager.ts";
import { CALL_OPTIONS, checkOptions } from "./option-names.ts";
import { isId } from "./sequencer.ts";

const MAX_PENDING = 1000;
/** Records that are read at the same time. */
const READ_AT_ONCE = 16;

async function read(engine: ManagerEngine, operation: string, name: string): Promise<LockRecord> {
  try {
    return await engine.link.call(engine.settings.defaults.requestTimeoutMs, async (backend, io) =>
      backend.inspect(name, io),
    );
  } catch (error) {
    throw asBackendError(error, operation);
  }
}

function heldOf(record: LockRecord): HeldInfo[] {
  return record.holders.map(({ grantId, holder, token, sinceMs, remainingMs }) => ({
    name: record.name,
    mode: record.mode ?? "exclusive",
    holder: decodeHolder(holder),
    grantId,
    token,
    sinceMs,
    remainingMs,
  }));
}

function pendingOf(record: LockRecord): PendingInfo[] {
  return record.waiters
    .slice(0, MAX_PENDING)
    .map(({ grantId, holder }) => ({ name: record.name, holder: decodeHolder(holder), grantId }));
}

/** One lock as the backend shows it. */
export async function inspect(engine: ManagerEngine, name: string): Promise<LockInfo> {
  checkName(name);
  engine.checkOpen();
  const record = await read(engine, "inspect", name);
  const held = heldOf(record);
  const [first] = held;
  return {
    name,
    mode: record.mode,
    permits: record.permits,
    held,
    pending: pendingOf(record),
    lockDelayMs: record.lockDelayMs,
    truncated: record.waiters.length > MAX_PENDING,
    holder: first?.holder ?? null,
    token: first?.token ?? null,
    sinceMs: first?.sinceMs ?? null,
    remainingMs: first?.remainingMs ?? null,
  };
}

/** Every lock of the namespace that is held or waited for, up to `limit`. */
export async function query(
  engine: ManagerEngine,
  options: { readonly prefix?: string; readonly limit?: number } = {},
): Promise<QueryResult> {
  checkOptions(options, CALL_OPTIONS.query);
  const { prefix = "", limit = 100 } = options;
  if (typeof prefix !== "string")
    throw new InvalidArgumentError(`Expected \`prefix\` to be a string, got ${show(prefix)}.`);
  if (typeof limit !== "number" || !Number.isInteger(limit) || limit < 1 || limit > 10_000)
    throw new InvalidArgumentError(
      `Expected \`limit\` to be a whole number from 1 to 10,000, got ${show(limit)}.`,
    );
  engine.checkOpen();
  const { names, truncated } = await namesOf(engine, prefix, limit);
  const records: LockRecord[] = [];
  for (let at = 0; at < names.length; at += READ_AT_ONCE)
    records.push(
      ...(await Promise.all(
        names.slice(at, at + READ_AT_ONCE).map(async (name) => read(engine, "query", name)),
      )),
    );
  return { held: records.flatMap(heldOf), pending: records.flatMap(pendingOf), truncated };
}

async function namesOf(
  engine: ManagerEngine,
  prefix: string,
  limit: number,
): Promise<{ names: string[]; truncated: boolean }> {
  const names: string[] = [];
  let cursor: string | undefined;
  try {
    do {
      const page = {
        prefix,
        limit: limit + 1 - names.length,
        ...(cursor === undefined ? {} : { cursor }),
      };
      const found = await engine.link.call(
        engine.settings.defaults.requestTimeoutMs,
        async (backend, io) => backend.list(page, io),
      );
      names.push(...found.names);
      cursor = found.cursor;
    } while (cursor !== undefined && names.length <= limit);
  } catch (error) {
    throw asBackendError(error, "query");
  }
  return { names: names.slice(0, limit), truncated: names.length > limit };
}

/** Frees one grant and no other. */
export async function revoke(
  engine: ManagerEngine,
  name: string,
  options: { readonly reason: string; readonly grantId?: string; readonly now?: boolean },
): Promise<{ readonly revoked: Holder | null }> {
  checkName(name);
  checkOptions(options, CALL_OPTIONS.revoke);
  const { reason, now = false } = options;
  if (typeof reason !== "string" || reason.trim() === "")
    throw new InvalidArgumentError("Expected `reason` to say why the lease is revoked.");
  if (options.grantId !== undefined && !isId(options.grantId))
    throw new InvalidArgumentError(
      `Expected \`grantId\` to be a grant id, got ${show(options.grantId)}.`,
    );
  engine.checkOpen();
  const record = await read(engine, "revoke", name);
  if (options.grantId === undefined && record.mode !== "exclusive" && record.holders.length > 0)
    throw new InvalidArgumentError(
      `Expected a \`grantId\`: "${name}" has ${record.mode ?? "several"} leases.`,
    );
  const grant =
    options.grantId === undefined
      ? record.holders[0]
      : record.holders.find((holder) => holder.grantId === options.grantId);
  if (grant === undefined) return { revoked: null };
  const holder = decodeHolder(grant.holder);
  try {
    const order = { name, grantId: grant.grantId, now };
    const released = await engine.link.call(
      engine.settings.defaults.requestTimeoutMs,
      async (backend, io) => backend.revoke(order, io),
    );
    if (released.kind === "failed") throw released.error;
    if (released.kind === "gone") return { revoked: null };
  } catch (error) {
    throw asBackendError(error, "revoke");
  }
  const { clock, events } = engine;
  if (events.wants("revoked"))
    events.emit("revoked", {
      name,
      grantId: grant.grantId,
      holder,
      reason,
      atMs: clock.wall(),
      monoMs: clock.mono(),
    });
  return { revoked: holder };
}
