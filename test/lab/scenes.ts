import { History, type NewEv } from "../../src/lab/history.ts";

const S = 1e9;

/** A history from short lines; times in seconds, the client's clock is the history's. */
function sceneOf(
  scenario: string,
  lines: readonly (Omit<NewEv, "t"> & { readonly s: number })[],
): History {
  const history = new History({ scenario, seed: "1", backend: "by hand" });
  for (const { s, ...event } of lines) history.append({ t: s * S, ...event });
  return history;
}

const A = { p: "A", lock: "stock", grant: "gA", token: 33n } as const;
const B = { p: "B", lock: "stock", grant: "gB", token: 34n } as const;
const X = "parcel <7>";

/**
 * S04: A reads and stalls; B acquires and reads; A's write arrives before B's first write; B writes from what it read.
 * Tokens never go back, and an update is lost all the same.
 */
export function claimGap(): History {
  return sceneOf("S04", [
    { s: 0, ...A, op: 1, k: "invoke", f: "acquire", ttl: 10 * S },
    { s: 0.1, ...A, op: 1, k: "ok", f: "acquire", ttl: 10 * S, deadline: 9.5 * S },
    { s: 0.2, ...A, op: 2, k: "event", f: "read", res: X, ver: 7 },
    { s: 0.3, ...A, k: "event", f: "fault.pause" },
    { s: 10.2, ...A, k: "event", f: "srv.expire" },
    { s: 11, ...B, op: 3, k: "invoke", f: "acquire", ttl: 10 * S },
    { s: 11.1, ...B, op: 3, k: "ok", f: "acquire", ttl: 10 * S, deadline: 20.5 * S },
    { s: 12.3, ...B, op: 4, k: "event", f: "read", res: X, ver: 7 },
    { s: 12.35, ...A, k: "event", f: "fault.resume" },
    { s: 12.36, ...A, op: 5, k: "invoke", f: "write", res: X, from: 7, ver: 8, path: "worker" },
    { s: 12.4, ...A, op: 5, k: "event", f: "write", res: X, from: 7, ver: 8, accepted: true },
    { s: 12.5, ...A, k: "event", f: "lost", err: "expired" },
    { s: 12.6, ...B, op: 6, k: "event", f: "write", res: X, from: 7, ver: 9, accepted: true },
    { s: 13, ...B, op: 7, k: "invoke", f: "release" },
    { s: 13.1, ...B, op: 7, k: "ok", f: "release" },
  ]);
}

/** The same with a claim before the first read: A's write is refused. */
export function claimed(): History {
  return sceneOf("S04", [
    { s: 0, ...A, op: 1, k: "invoke", f: "acquire", ttl: 10 * S },
    { s: 0.1, ...A, op: 1, k: "ok", f: "acquire", ttl: 10 * S, deadline: 9.5 * S },
    { s: 0.15, ...A, op: 8, k: "event", f: "claim", res: X, accepted: true },
    { s: 0.2, ...A, op: 2, k: "event", f: "read", res: X, ver: 7 },
    { s: 11, ...B, op: 3, k: "invoke", f: "acquire", ttl: 10 * S },
    { s: 11.1, ...B, op: 3, k: "ok", f: "acquire", ttl: 10 * S, deadline: 20.5 * S },
    { s: 12.2, ...B, op: 9, k: "event", f: "claim", res: X, accepted: true },
    { s: 12.3, ...B, op: 4, k: "event", f: "read", res: X, ver: 7 },
    { s: 12.4, ...A, op: 5, k: "event", f: "write", res: X, from: 7, ver: 8, accepted: false },
    { s: 12.6, ...B, op: 6, k: "event", f: "write", res: X, from: 7, ver: 9, accepted: true },
  ]);
}

/**
 * A hands its lease on to a caller of its own, who asked late; it is renewed no more and lapses by the ttl of the one
 * record that both had. B is granted by `grantedS` seconds.
 */
export function handedOnAndLapsed(grantedS: number): History {
  const next = { ...A, token: 34n };
  return sceneOf("hand-off", [
    { s: 0, ...A, op: 1, k: "invoke", f: "acquire", ttl: 10 * S },
    { s: 0.1, ...A, op: 1, k: "ok", f: "acquire", ttl: 10 * S, deadline: 9.5 * S },
    { s: 4, ...next, op: 2, k: "invoke", f: "acquire", ttl: 10 * S },
    { s: 5, ...A, op: 3, k: "invoke", f: "release" },
    { s: 5, ...A, op: 3, k: "ok", f: "release" },
    { s: 5, ...next, op: 2, k: "ok", f: "acquire", ttl: 10 * S, deadline: 9.5 * S },
    { s: 6, ...B, token: 35n, op: 4, k: "invoke", f: "acquire", ttl: 10 * S },
    {
      s: grantedS,
      ...B,
      token: 35n,
      op: 4,
      k: "ok",
      f: "acquire",
      ttl: 10 * S,
      deadline: 19.7 * S,
    },
    { s: 12, ...B, token: 35n, op: 5, k: "invoke", f: "release" },
    { s: 12.1, ...B, token: 35n, op: 5, k: "ok", f: "release" },
  ]);
}
