import {
  type Answer,
  type Ask,
  type Backend,
  type Driver,
  type DriverContext,
  DriverError,
  type GrantRef,
} from "../../../src/core/driver.ts";
import { MAX_TOKEN } from "../../../src/core/fencing-token.ts";
import { compareNames } from "../../../src/core/lock-name.ts";

interface Item {
  ask: Ask;
  token: bigint;
  version: number;
  state: "held" | "released" | "revoked" | "quiet";
  takenOver: boolean;
  previousToken: bigint | null;
  readonly refused: Set<string>;
  readonly revoked: Set<string>;
}

const EMPTY: Ask = {
  name: "",
  mode: "exclusive",
  permits: 1,
  grantId: "",
  holder: "",
  ttlMs: 0,
  lockDelayMs: 0,
  tokens: 1,
  join: "no",
};

/**
 * A store that knows no time: it takes a lease over only for somebody who saw its item unchanged for the whole lease.
 * Items are never deleted; exclusive only. What DynamoDB is, without the network.
 */
export function observedDriver(): Driver {
  const items = new Map<string, Item>();
  return {
    name: "observed",
    fencing: "durable",
    waiting: "poll",
    liveness: "ttl",
    clock: "observer",
    modes: ["exclusive"],
    ttl: { minMs: 1000, stepMs: 1 },
    mints: "at-grant",
    transfer: "no",
    retains: "yes",
    async open({ namespace }: DriverContext): Promise<Backend> {
      const key = (name: string): string => JSON.stringify([namespace, name]);
      const held = (name: string, grantId: string): Item | undefined => {
        const item = items.get(key(name));
        return item?.state === "held" && item.ask.grantId === grantId ? item : undefined;
      };
      const itemOf = (name: string): Item => {
        const known = items.get(key(name));
        if (known !== undefined) return known;
        const item: Item = {
          ask: EMPTY,
          token: 0n,
          version: 0,
          state: "released",
          takenOver: false,
          previousToken: null,
          refused: new Set(),
          revoked: new Set(),
        };
        items.set(key(name), item);
        return item;
      };
      const gone = ({ name, grantId }: Pick<GrantRef, "name" | "grantId">) =>
        ({
          kind: "gone",
          reason: itemOf(name).revoked.has(grantId) ? "revoked" : "expired",
        }) as const;
      return {
        async attempt(ask): Promise<Answer> {
          const item = itemOf(ask.name);
          if (item.refused.has(ask.grantId)) return { kind: "vanished" };
          const own = held(ask.name, ask.grantId);
          if (own === undefined) {
            const { ttlMs, lockDelayMs } = item.ask;
            const leaseMs = (item.state === "quiet" ? 0 : ttlMs) + lockDelayMs;
            const free = item.state === "released" || item.state === "revoked";
            const version = String(item.version);
            if (!free && !(ask.seen?.version === version && ask.seen.forMs >= leaseMs))
              return {
                kind: "busy",
                queued: false,
                blockedBy: item.state === "quiet" ? "lock-delay" : "lease",
                holder: item.ask.holder,
                askAgainMs: leaseMs / 4,
                keepEntryMs: Number.POSITIVE_INFINITY,
                observe: { version, leaseMs },
              };
            const last = item.ask.grantId === "" ? 0n : item.token + BigInt(item.ask.tokens - 1);
            const floor = ask.above !== undefined && ask.above > last ? ask.above : last;
            if (floor + BigInt(ask.tokens) > MAX_TOKEN)
              throw new DriverError("config", "not-applied", "out of tokens");
            item.takenOver = item.state !== "released";
            item.previousToken = last === 0n ? null : last;
            item.token = floor + 1n;
            item.ask = ask;
            item.state = "held";
          }
          item.version += 1;
          return {
            kind: "granted",
            tokens: { first: item.token, count: item.ask.tokens },
            takenOver: item.takenOver,
            previousToken: item.previousToken,
            ttlMs: ask.ttlMs,
          };
        },
        renew: async (refs) =>
          refs.map((ref) => {
            const item = held(ref.name, ref.grantId);
            if (item === undefined) return gone(ref);
            item.version += 1;
            return { kind: "renewed", ttlMs: ref.ttlMs };
          }),
        release: async (refs) =>
          refs.map((ref) => {
            if (ref.refuseLateMs !== undefined) itemOf(ref.name).refused.add(ref.grantId);
            const item = held(ref.name, ref.grantId);
            if (item === undefined) return gone(ref);
            item.state = "released";
            item.version += 1;
            if (ref.raiseTo !== undefined && ref.raiseTo > item.token) item.token = ref.raiseTo;
            return { kind: "released" };
          }),
        async revoke(order) {
          const item = held(order.name, order.grantId);
          if (item === undefined) return gone(order);
          item.revoked.add(order.grantId);
          item.state = order.now || item.ask.lockDelayMs === 0 ? "revoked" : "quiet";
          item.version += 1;
          return { kind: "released" };
        },
        async inspect(name) {
          const item = items.get(key(name));
          if (item?.state !== "held")
            return { name, mode: null, permits: 1, holders: [], waiters: [], lockDelayMs: 0 };
          const { grantId, holder, tokens } = item.ask;
          const lastToken = item.token + BigInt(tokens - 1);
          const token = item.token;
          return {
            name,
            mode: "exclusive",
            permits: 1,
            holders: [{ grantId, holder, token, lastToken, remainingMs: null, sinceMs: null }],
            waiters: [],
            lockDelayMs: 0,
          };
        },
        async list({ prefix, limit, cursor }) {
          const names = [...items]
            .filter(([at, { state, ask }]) => state === "held" && at === key(ask.name))
            .map(([, { ask }]) => ask.name)
            .filter((name) => name.startsWith(prefix))
            .filter((name) => cursor === undefined || compareNames(name, cursor) > 0)
            .sort(compareNames);
          const page = names.slice(0, limit);
          const last = page.at(-1);
          return names.length > limit && last !== undefined
            ? { names: page, cursor: last }
            : { names: page };
        },
        probe: async () => [],
        close: async () => undefined,
      };
    },
  };
}
