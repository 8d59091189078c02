import type { Ev } from "../history.ts";

/** What one grant did under a lock. */
interface Section {
  readonly first: Ev;
  /** Sections that must come after this one, with the two accesses that say so. */
  readonly before: Map<string, readonly [Ev, Ev]>;
  /** Reads that count only when an accepted write follows them: a stale read that leads to nothing harms nobody. */
  pending: { committed: boolean; readonly edges: (readonly [string, Ev, string, Ev])[] };
}

interface Standing {
  writer: Ev | undefined;
  readers: { readonly event: Ev; readonly pending: Section["pending"] }[];
}

/** Sections of a lock that are remembered; a cycle among fewer neighbours is what goes wrong in practice. */
const WINDOW = 64;
const READERS = 256;

/**
 * The order that the accesses of one lock's critical sections impose on them. A cycle means that there is no order in
 * which they could have run one after another.
 */
export class ConflictGraph {
  readonly #sections = new Map<string, Section>();
  readonly #standing = new Map<string, Standing>();

  /** A read; `counts`: also when no write follows (a reader's lease). Returns the cycle that it closes, if any. */
  read(event: Ev, grant: string, res: string, counts: boolean): readonly Ev[] | undefined {
    const standing = this.#at(res);
    const section = this.#section(event, grant);
    const pending = counts ? { committed: true, edges: [] } : section.pending;
    if (standing.readers.length < READERS) standing.readers.push({ event, pending });
    const { writer } = standing;
    if (writer?.grant === undefined || writer.grant === grant) return undefined;
    if (counts) return this.#edge(writer.grant, writer, grant, event);
    pending.edges.push([writer.grant, writer, grant, event]);
    return undefined;
  }

  /** An accepted write. Returns the cycle that it closes, if any. */
  write(event: Ev, grant: string, res: string): readonly Ev[] | undefined {
    const standing = this.#at(res);
    const section = this.#section(event, grant);
    let cycle: readonly Ev[] | undefined;
    const { pending } = section;
    pending.committed = true;
    section.pending = { committed: false, edges: [] };
    for (const edge of pending.edges) cycle ??= this.#edge(...edge);
    for (const { event: reader, pending: read } of standing.readers) {
      if (reader.grant === undefined || reader.grant === grant) continue;
      if (read.committed) cycle ??= this.#edge(reader.grant, reader, grant, event);
      else read.edges.push([reader.grant, reader, grant, event]);
    }
    const { writer } = standing;
    if (writer?.grant !== undefined && writer.grant !== grant)
      cycle ??= this.#edge(writer.grant, writer, grant, event);
    standing.writer = event;
    standing.readers = [];
    return cycle;
  }

  #at(res: string): Standing {
    let standing = this.#standing.get(res);
    if (standing === undefined) {
      standing = { writer: undefined, readers: [] };
      this.#standing.set(res, standing);
    }
    return standing;
  }

  #section(event: Ev, grant: string): Section {
    let section = this.#sections.get(grant);
    if (section !== undefined) return section;
    section = { first: event, before: new Map(), pending: { committed: false, edges: [] } };
    this.#sections.set(grant, section);
    if (this.#sections.size > WINDOW) {
      const [oldest] = this.#sections.keys();
      if (oldest !== undefined) this.#sections.delete(oldest);
    }
    return section;
  }

  #edge(from: string, cause: Ev, to: string, effect: Ev): readonly Ev[] | undefined {
    const section = this.#sections.get(from);
    if (section === undefined || section.before.has(to)) return undefined;
    section.before.set(to, [cause, effect]);
    const back = this.#path(to, from, new Set());
    return back === undefined ? undefined : [cause, effect, ...back];
  }

  /** The accesses along a way from one section to another. */
  #path(from: string, to: string, seen: Set<string>): readonly Ev[] | undefined {
    seen.add(from);
    for (const [next, pair] of this.#sections.get(from)?.before ?? []) {
      if (next === to) return pair;
      if (seen.has(next)) continue;
      const rest = this.#path(next, to, seen);
      if (rest !== undefined) return [...pair, ...rest];
    }
    return undefined;
  }
}
