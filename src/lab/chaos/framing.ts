/** How a stream of bytes falls into messages, and what each is called: the same words as in the simulator. */
import { commandName } from "../servers/redis-words.ts";
import { decodeValue } from "./resp.ts";

/** A whole message. */
export interface Framed {
  readonly label: string;
  readonly data: Buffer;
}

/** Reads one connection. */
export interface Framing {
  /** From client to server. */
  up(data: Buffer): readonly Framed[];
  /** Back. */
  down(data: Buffer): readonly Framed[];
}

/** Splits off whole messages, and keeps the rest for later. */
class Splitter {
  #rest: Buffer = Buffer.alloc(0);

  split(
    data: Buffer,
    measure: (
      data: Buffer,
      at: number,
    ) => { readonly next: number; readonly label: string } | undefined,
  ): Framed[] {
    const all = this.#rest.length === 0 ? data : Buffer.concat([this.#rest, data]);
    const found: Framed[] = [];
    let at = 0;
    while (at < all.length) {
      const one = measure(all, at);
      if (one === undefined) break;
      found.push({ label: one.label, data: all.subarray(at, one.next) });
      at = one.next;
    }
    this.#rest = all.subarray(at);
    return found;
  }
}

/** Commands by their name or script, replies by the command, pub/sub messages as `wake`. */
export function redisFraming(): Framing {
  const [up, down] = [new Splitter(), new Splitter()];
  const asked: string[] = [];
  return {
    up: (data) =>
      up.split(data, (all, at) => {
        const one = decodeValue(all, at);
        if (one === undefined) return undefined;
        const label = Array.isArray(one.value) ? commandName(one.value as unknown[]) : "inline";
        asked.push(label);
        return { next: one.next, label };
      }),
    down: (data) =>
      down.split(data, (all, at) => {
        const one = decodeValue(all, at);
        if (one === undefined) return undefined;
        const [head] = Array.isArray(one.value) ? (one.value as unknown[]) : [];
        if (one.push || head === "message") return { next: one.next, label: "wake" };
        return { next: one.next, label: `${asked.shift() ?? "unasked"} reply` };
      }),
  };
}

/** Lines of JSON, called by their field `f`. */
export function lineFraming(): Framing {
  const [up, down] = [new Splitter(), new Splitter()];
  const asked: string[] = [];
  const line = (
    all: Buffer,
    at: number,
  ): { readonly next: number; readonly text: string } | undefined => {
    const end = all.indexOf("\n", at);
    return end < 0 ? undefined : { next: end + 1, text: all.toString("utf8", at, end) };
  };
  return {
    up: (data) =>
      up.split(data, (all, at) => {
        const one = line(all, at);
        if (one === undefined) return undefined;
        const label = String((JSON.parse(one.text) as { f?: unknown }).f);
        asked.push(label);
        return { next: one.next, label };
      }),
    down: (data) =>
      down.split(data, (all, at) => {
        const one = line(all, at);
        return one && { next: one.next, label: `${asked.shift() ?? "unasked"} reply` };
      }),
  };
}

/** Whatever comes, as it comes: a replication stream. */
export function rawFraming(): Framing {
  const all = (data: Buffer): Framed[] => [{ label: "bytes", data }];
  return { up: all, down: all };
}
