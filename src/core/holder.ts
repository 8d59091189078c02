/** Who has a lease, or waits for one: for people to read, never to decide by. */
export interface Holder {
  /** At most 256 bytes of UTF-8. */
  readonly label: string;
  readonly host: string;
  readonly pid: number;
  /** At most 4 KiB as JSON. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** A holder as the store keeps it. */
export function encodeHolder(holder: Holder): string {
  return JSON.stringify([holder.label, holder.host, holder.pid, holder.metadata]);
}

/** Reads what a store keeps; text that another program wrote becomes a holder with that text as its label. */
export function decodeHolder(text: string): Holder {
  try {
    const [label, host, pid, metadata] = JSON.parse(text) as unknown[];
    if (typeof label === "string" && typeof host === "string" && typeof pid === "number")
      return { label, host, pid, metadata: (metadata ?? {}) as Record<string, string> };
  } catch {
    // not ours: shown as it is
  }
  return { label: text.slice(0, 256), host: "", pid: 0, metadata: {} };
}

/** One holder in a sentence: `nightly on web-1 (pid 812)`. */
export function describeHolder(holder: Holder): string {
  const where = holder.host === "" ? "" : ` on ${holder.host}`;
  return `${holder.label === "" ? "somebody" : holder.label}${where}${holder.pid > 0 ? ` (pid ${holder.pid})` : ""}`;
}
