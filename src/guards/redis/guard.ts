/*
 * A guard over keys in Redis.
 *
 * State: one hash per store, under the store's hash tag, has (token, grant id, scope, last use) per resource and a
 * floor per scope; the guarded keys are under the same tag, so one server has all of it.
 * Atomic step: a script. A claim decides and installs in one; a write is verified in the script that applies it, and a
 * transaction's reads are compared there, so nothing comes between the check and the write:
 *   A: verify, pause        B: claim, read        A: the script that would write finds B's pair and writes nothing
 * Why pairs never come back: see `decideClaim`; the scripts decide the same, tokens compared as decimal strings.
 * Lost memory: entries and data share a server and a slot, and a replica gets both in order. What a failover, a restore
 * or FLUSHALL takes back, it takes back from both, so the history that remains has no interleaving; a holder whose claim
 * went is refused at its next write and has to claim, and read, again.
 * What breaks it: writes to these keys that pass the guard by; eviction or expiry of the hash; reads from a replica.
 */
import { BackendError, InvalidArgumentError } from "../../core/errors.ts";
import { parseToken } from "../../core/fencing-token.ts";
import {
  type Claim,
  type Credential,
  type Guard,
  type GuardOptions,
  guardKeys,
  type Presentation,
  presentationOf,
  type Resources,
  resourceList,
} from "../../core/guard.ts";
import {
  checkAdoption,
  decideAdoption,
  decideVerify,
  purgeTime,
} from "../../core/guard-decision.ts";
import { checkName } from "../../core/lock-name.ts";
import { CONFLICT, optimistically } from "../../runtime/optimistic.ts";
import { systemMac } from "../../runtime/system-mac.ts";
import { ADOPT, CLAIM, guardedScript, PURGE, READ } from "./lua.ts";
import {
  entryOf,
  type RedisStore,
  type RedisTransaction,
  randomId,
  refuse,
  type Store,
  storeOf,
  transactionOf,
} from "./store.ts";

/** A user's script for `eval`. */
export interface GuardedScript {
  /** The text: its KEYS and ARGV begin at 1 as always. */
  readonly script: string;
  /** Keys of the store, without its tag. */
  readonly keys?: readonly string[];
  readonly args?: readonly string[];
}

/** A guard over stores made by `redisStore`. */
export interface RedisGuard extends Guard<RedisStore, RedisTransaction> {
  /**
   * SET, while the claim stands: verified and written in one script.
   * @throws StaleTokenError, GuardScopeError, LeaseLostError, LeaseReleasedError, InvalidArgumentError, BackendError
   */
  set(
    store: RedisStore,
    resources: Resources,
    credential: Credential,
    key: string,
    value: string,
    options?: { readonly ttlMs?: number },
  ): Promise<void>;
  /** HSET, as `set`. */
  hset(
    store: RedisStore,
    resources: Resources,
    credential: Credential,
    key: string,
    fields: Readonly<Record<string, string>>,
  ): Promise<void>;
  /**
   * Runs a script behind the check, in one step with it, and resolves to what it returns. A script that fails in the
   * middle keeps what it wrote, as every script does. Where a client re-sends on its own, the second delivery runs
   * nothing: `BackendError` with the outcome "unknown".
   * @throws as `set`
   */
  eval(
    store: RedisStore,
    resources: Resources,
    credential: Credential,
    script: GuardedScript,
  ): Promise<unknown>;
}

/**
 * Makes a guard over Redis.
 * @throws InvalidArgumentError for a key that could not protect anything
 */
export function redisGuard(options: GuardOptions = {}): RedisGuard {
  const keys = guardKeys(options);
  const read = (credential: Credential): Presentation =>
    presentationOf(credential, keys, systemMac);
  /** One verified write. */
  const write = async (
    db: RedisStore,
    resources: Resources,
    credential: Credential,
    fn: (tx: RedisTransaction) => void,
  ): Promise<void> => {
    const [store, list, mine] = [storeOf(db), resourceList(resources), read(credential)];
    mine.checkDeadline();
    await store.change("write", mine.remainingMs(), async (tx) => {
      tx.require(list, mine);
      fn(tx);
    });
  };
  return {
    async run(db, resources, credential, fn) {
      const [store, list, mine] = [storeOf(db), resourceList(resources), read(credential)];
      if (typeof fn !== "function")
        throw new InvalidArgumentError("Expected the body of `run` to be a function.");
      await claimAll(store, list, mine);
      return store.change("run", mine.remainingMs(), async (tx) => {
        tx.require(list, mine);
        return fn(tx);
      });
    },
    async claim(db, resources, credential) {
      await claimAll(storeOf(db), resourceList(resources), read(credential));
    },
    async verify(transaction, resources, credential) {
      const [list, mine] = [resourceList(resources), read(credential)];
      const tx = transactionOf(transaction);
      mine.checkDeadline();
      for (const resource of list) decideVerify(resource, await tx.entry(resource), mine);
      tx.require(list, mine);
    },
    async set(db, resources, credential, key, value, ttl) {
      await write(db, resources, credential, (tx) => {
        tx.set(key, value, ttl);
      });
    },
    async hset(db, resources, credential, key, fields) {
      await write(db, resources, credential, (tx) => {
        tx.hset(key, fields);
      });
    },
    async eval(db, resources, credential, script) {
      return evaluate(storeOf(db), resourceList(resources), read(credential), script);
    },
    async adopt(db, resource, adoption) {
      checkName(resource, "resource");
      checkAdoption(adoption);
      const store = storeOf(db);
      await optimistically("adopt", Infinity, async () => adopt(store, resource, adoption));
    },
    async purge(db, before) {
      const time = purgeTime(before);
      const [, gone] = await storeOf(db).script(PURGE, [], [Math.max(0, time).toString()]);
      return Number(gone);
    },
  };
}

async function claimAll(store: Store, list: readonly string[], mine: Presentation): Promise<void> {
  mine.checkDeadline();
  refuse(await store.script(CLAIM, [], [...pairOf(mine), ...list]), list, mine, "claim");
}

async function evaluate(
  store: Store,
  list: readonly string[],
  mine: Presentation,
  { script, keys = [], args = [] }: GuardedScript,
): Promise<unknown> {
  if (typeof script !== "string")
    throw new InvalidArgumentError("Expected `script` to be the text of a Lua script.");
  mine.checkDeadline();
  const reply = await store.script(
    guardedScript(script),
    keys.map((key) => store.key(key)),
    [randomId(), ...pairOf(mine), String(list.length), ...list, ...args],
  );
  refuse(reply, list, mine, "verify");
  if (reply[0] === 4)
    throw new BackendError("The client sent this script twice: it ran, but its result is lost", {
      operation: "eval",
      outcome: "unknown",
    });
  return reply[1] ?? null;
}

function pairOf({ token, grantId, scope }: Claim): readonly [string, string, string] {
  return [token.toString(), grantId, scope];
}

async function adopt(
  store: Store,
  resource: string,
  adoption: Parameters<typeof decideAdoption>[2],
): Promise<null | typeof CONFLICT> {
  const found = await store.script(READ, [], ["e", resource]);
  const [, floor] = await store.script(READ, [], ["f", adoption.to]);
  const standing = { entry: entryOf(found), floor: parseToken(floor) ?? 0n };
  const move = decideAdoption(resource, standing, adoption);
  if (move === null) return null;
  const reply = await store.script(
    ADOPT,
    [],
    [
      resource,
      typeof found[1] === "string" ? found[1] : "",
      pairOf(move.entry).join("|"),
      adoption.from,
      move.leftFloor.toString(),
    ],
  );
  return reply[0] === 3 ? CONFLICT : null;
}
