import type {
  Answer,
  Ask,
  Backend,
  Driver,
  DriverContext,
  GrantRef,
  LockRecord,
  Notice,
} from "../../../src/core/driver.ts";
import { encodeName } from "../../../src/core/lock-name.ts";

/** What one who joined leaves in the store, alive for its ttl after the last word from it. */
interface Key {
  readonly ask: Ask;
  /** Given on joining: the smallest number of a name holds it, and it is the token. */
  readonly number: number;
  readonly sinceMs: number;
  readonly notify: (notice: Notice) => void;
  expiresAt: number;
  takenOver: boolean | null;
  woken: boolean;
}

/** What a name's last holder left behind. */
interface Marker {
  abandoned: boolean;
  quietUntil: number;
}

/** The names of one namespace. */
class Keys {
  readonly byName = new Map<string, Key[]>();
  readonly markers = new Map<string, Marker>();
  readonly gone = new Map<string, "late" | "revoked">();

  /** The keys of a name that are alive, in the order of their numbers. Holders that died leave a marker. */
  of(name: string, now: number): Key[] {
    const all = this.byName.get(name) ?? [];
    for (const { takenOver, expiresAt, ask } of all)
      if (takenOver !== null && expiresAt <= now)
        this.markers.set(name, { abandoned: true, quietUntil: expiresAt + ask.lockDelayMs });
    const alive = all.filter(({ expiresAt }) => expiresAt > now);
    this.byName.set(name, alive);
    return alive;
  }

  remove(key: Key, marker: Marker, now: number): void {
    const { name } = key.ask;
    this.byName.set(
      name,
      this.of(name, now).filter((other) => other !== key),
    );
    if (key.takenOver !== null) this.markers.set(name, marker);
    const [head] = this.of(name, now);
    if (head?.takenOver !== null || head.woken) return;
    head.woken = true;
    head.notify({ kind: "wake", grantId: head.ask.grantId });
  }
}

/**
 * A store where everybody who joins gets a number, and the smallest living number holds the name: tokens are minted at
 * enqueue. Whole seconds only, exclusive only. What etcd is, without the network.
 */
export function numberedDriver(): Driver {
  const namespaces = new Map<string, Keys>();
  let numbers = 0;
  return {
    name: "numbered",
    fencing: "durable",
    waiting: "queue",
    liveness: "ttl",
    clock: "server-monotonic",
    modes: ["exclusive"],
    ttl: { minMs: 2000, stepMs: 1000 },
    mints: "at-enqueue",
    transfer: "no",
    retains: "yes",
    async open({ namespace, clock, notify }: DriverContext): Promise<Backend> {
      const keys = namespaces.get(namespace) ?? new Keys();
      namespaces.set(namespace, keys);
      const find = ({ name, grantId }: Pick<GrantRef, "name" | "grantId">): Key | undefined =>
        keys.of(name, clock.mono()).find(({ ask }) => ask.grantId === grantId);
      const gone = ({ grantId }: Pick<GrantRef, "grantId">) =>
        ({
          kind: "gone",
          reason: keys.gone.get(grantId) === "revoked" ? "revoked" : "expired",
        }) as const;
      return {
        async attempt(ask) {
          return attempt(keys, ask, () => (numbers += 1), clock, notify);
        },
        renew: async (refs) =>
          refs.map((ref) => {
            const key = find(ref);
            if (key === undefined) return gone(ref);
            key.expiresAt = Math.max(key.expiresAt, clock.mono() + ref.ttlMs);
            return { kind: "renewed", ttlMs: ref.ttlMs };
          }),
        release: async (refs) =>
          refs.map((ref) => {
            if (ref.refuseLateMs !== undefined) keys.gone.set(ref.grantId, "late");
            const key = find(ref);
            if (key === undefined) return gone(ref);
            keys.remove(key, { abandoned: false, quietUntil: 0 }, clock.mono());
            return { kind: "released" };
          }),
        async revoke(order) {
          const key = find(order);
          if (key === undefined) return gone(order);
          keys.gone.set(order.grantId, "revoked");
          const now = clock.mono();
          const quietUntil = order.now ? 0 : now + key.ask.lockDelayMs;
          keys.remove(key, { abandoned: true, quietUntil }, now);
          return { kind: "released" };
        },
        inspect: async (name) => recordOf(keys, name, clock.mono()),
        async list({ prefix, limit, cursor = "" }) {
          const names = [...keys.byName.keys()]
            .filter((name) => name.startsWith(prefix) && keys.of(name, clock.mono()).length > 0)
            .map((name) => ({ name, encoded: encodeName(name) }))
            .filter(({ encoded }) => encoded > cursor)
            .sort((a, b) => (a.encoded < b.encoded ? -1 : 1));
          const page = names.slice(0, limit);
          const last = page.at(-1);
          const found = page.map(({ name }) => name);
          return names.length > limit && last !== undefined
            ? { names: found, cursor: last.encoded }
            : { names: found };
        },
        probe: async () => [],
        close: async () => undefined,
      };
    },
  };
}

function attempt(
  keys: Keys,
  ask: Ask,
  nextNumber: () => number,
  clock: DriverContext["clock"],
  notify: DriverContext["notify"],
): Answer {
  const now = clock.mono();
  if (keys.gone.has(ask.grantId)) return { kind: "vanished" };
  const alive = keys.of(ask.name, now);
  const marker = keys.markers.get(ask.name);
  let own = alive.find((key) => key.ask.grantId === ask.grantId);
  if (own === undefined && ask.join === "kept") return { kind: "vanished" };
  const quiet = marker !== undefined && marker.quietUntil > now;
  if (own === undefined && (ask.join === "yes" || (alive.length === 0 && !quiet))) {
    own = {
      ask,
      number: nextNumber(),
      sinceMs: clock.wall(),
      notify,
      expiresAt: 0,
      takenOver: null,
      woken: false,
    };
    alive.push(own);
  }
  if (own !== undefined) own.expiresAt = Math.max(own.expiresAt, now + ask.ttlMs);
  const [head] = alive;
  if (own !== undefined && own === head && (own.takenOver !== null || !quiet)) {
    own.takenOver ??= marker?.abandoned ?? false;
    return {
      kind: "granted",
      tokens: { first: BigInt(own.number), count: 1 },
      takenOver: own.takenOver,
      previousToken: null,
      ttlMs: ask.ttlMs,
    };
  }
  const held = head !== undefined && head.takenOver !== null;
  return {
    kind: "busy",
    queued: own !== undefined,
    blockedBy: held ? "lease" : quiet ? "lock-delay" : "queue",
    holder: head?.ask.holder ?? null,
    askAgainMs: Math.max(1, (head?.expiresAt ?? marker?.quietUntil ?? now) - now),
    keepEntryMs: own === undefined ? Number.POSITIVE_INFINITY : ask.ttlMs,
  };
}

function recordOf(keys: Keys, name: string, now: number): LockRecord {
  const alive = keys.of(name, now);
  const held = alive.filter(({ takenOver }) => takenOver !== null);
  return {
    name,
    mode: held.length === 0 ? null : "exclusive",
    permits: 1,
    holders: held.map(({ ask, number, expiresAt, sinceMs }) => ({
      grantId: ask.grantId,
      holder: ask.holder,
      token: BigInt(number),
      lastToken: BigInt(number),
      remainingMs: expiresAt - now,
      sinceMs,
    })),
    waiters: alive
      .filter(({ takenOver }) => takenOver === null)
      .map(({ ask }) => ({ grantId: ask.grantId, holder: ask.holder })),
    lockDelayMs: Math.max(0, (keys.markers.get(name)?.quietUntil ?? 0) - now),
  };
}
