/** The protocol of Redis, as far as a proxy and a plain client need it. */
import type { RedisReply } from "../servers/redis-state.ts";

/** A command as it goes over the wire. */
export function encodeCommand(args: readonly (string | number)[]): string {
  const parts = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`);
  return `*${args.length}\r\n${parts.join("")}`;
}

/** A decoded value; aggregates are lists, errors are `{ error }`. */
export type RespValue = RedisReply | { readonly error: string } | readonly RespValue[];

interface Decoded {
  readonly value: RespValue;
  /** Where the next value begins. */
  readonly next: number;
  /** A message that nobody asked for. */
  readonly push: boolean;
}

/** Decodes the value that begins at `at`; `undefined` while it is not whole. RESP2 and RESP3. */
export function decodeValue(data: Buffer, at: number): Decoded | undefined {
  const end = data.indexOf("\r\n", at);
  if (end < 0) return undefined;
  const kind = String.fromCharCode(data[at] ?? 0);
  const text = data.toString("latin1", at + 1, end);
  const next = end + 2;
  switch (kind) {
    case "$":
    case "=":
    case "!": {
      const size = Number(text);
      if (size < 0) return { value: null, next, push: false };
      if (data.length < next + size + 2) return undefined;
      return {
        value: data.toString("utf8", next, next + size),
        next: next + size + 2,
        push: false,
      };
    }
    case "*":
    case "~":
    case ">":
      return decodeItems(data, next, Number(text), kind === ">");
    case "%":
    case "|":
      return decodeItems(data, next, 2 * Number(text), false);
    case "-":
      return { value: { error: text }, next, push: false };
    case ":":
      return { value: Number(text), next, push: false };
    case "_":
      return { value: null, next, push: false };
    default:
      return { value: text, next, push: false };
  }
}

function decodeItems(data: Buffer, at: number, count: number, push: boolean): Decoded | undefined {
  if (count < 0) return { value: null, next: at, push };
  const items: RespValue[] = [];
  let next = at;
  for (let i = 0; i < count; i += 1) {
    const item = decodeValue(data, next);
    if (item === undefined) return undefined;
    items.push(item.value);
    next = item.next;
  }
  return { value: items, next, push };
}
