/*
 * The atomic step of the S3 guard: one manifest that is only ever replaced as it was read.
 *
 * State: `<prefix>manifest` names every content and has the guard's entries; contents are objects `<prefix>c/…` that
 * never change. Step: a change that was computed from one manifest is written with If-Match on that one's ETag (the
 * first with If-None-Match: *); of two changes from the same manifest the store refuses the later one, which starts
 * again. Each manifest has an id of its own in it, so no ETag ever comes back.
 *
 * A write without an answer may still arrive, so it is decided, not guessed: the very same request is sent again. Done
 * means applied now; refused means that some generation came since, and the ids in the current manifest say whether ours
 * was among them. What was replaced is deleted after the commit: a reader that finds an object gone reads the manifest
 * again. A crash leaves at most objects that no manifest names.
 *
 * What breaks it: a store that takes these headers and ignores them (probed at the first use), writes to these objects
 * by another way, and buckets that are replicated both ways.
 */
import {
  BackendConfigError,
  BackendError,
  BackendUnavailableError,
  RingfenceError,
} from "../../core/errors.ts";
import type { FilesChanges } from "../../core/guard-files.ts";
import { systemClock } from "../../runtime/system-clock.ts";
import { systemRandom } from "../../runtime/system-random.ts";
import type { Condition, Objects, Put } from "./client.ts";
import { EMPTY, type Manifest, next, readManifest, wasApplied, writeManifest } from "./manifest.ts";

/** How often one write is sent until somebody answers. */
const SENDS = 4;
const PAUSE_MS = 100;

/** One generation, as it was read. */
export interface Generation {
  readonly manifest: Manifest;
  readonly condition: Condition;
}

/** A change that was computed from one generation. */
export interface Change extends FilesChanges {
  readonly from: Generation;
}

/** The objects of one store. */
export class Generations {
  readonly #objects: Objects;
  readonly #prefix: string;
  #probed: Promise<void> | undefined;

  constructor(objects: Objects, prefix: string) {
    this.#objects = objects;
    this.#prefix = prefix;
  }

  async current(operation: string): Promise<Generation> {
    await this.#ready();
    const found = await step(operation, "not-applied", async () =>
      this.#objects.get(this.#manifestKey),
    );
    if (found === null) return { manifest: EMPTY, condition: "absent" };
    return { manifest: readManifest(found.body), condition: { etag: found.etag } };
  }

  /** The content of a file of a generation; `null` when it went meanwhile, which means that the store went on. */
  async content(file: string): Promise<Uint8Array | null> {
    return step("read", "not-applied", async () => {
      const found = await this.#objects.get(this.#prefix + file);
      return found?.body ?? null;
    });
  }

  /**
   * Makes `change` the next generation, unless another one came first.
   * @throws BackendUnavailableError, with the outcome "unknown" where the manifest was sent and nobody answered
   */
  async commit(change: Change): Promise<"committed" | "conflict"> {
    const { from, entries, floors, writes } = change;
    const files = new Map(from.manifest.files);
    const written: string[] = [];
    const replaced: string[] = [];
    for (const [name, content] of writes) {
      const before = files.get(name);
      if (before !== undefined) replaced.push(before);
      files.delete(name);
      if (content === null) continue;
      const file = `c/${from.manifest.number + 1}-${randomId()}`;
      await step("write", "not-applied", async () => this.#send(file, content, "absent"));
      written.push(file);
      files.set(name, file);
    }
    const id = randomId();
    const manifest = next(from.manifest, id, { entries, floors, files });
    const put = await step("commit", "unknown", async () =>
      this.#send("manifest", writeManifest(manifest), from.condition),
    );
    const outcome = put === "done" ? "committed" : await this.#whether(id, manifest.number);
    await this.#removeAll(outcome === "committed" ? replaced : written);
    return outcome;
  }

  /** Whether a change that was refused had been applied by an earlier delivery of the same request. */
  async #whether(id: string, number: number): Promise<"committed" | "conflict"> {
    const { manifest } = await this.current("commit");
    const applied = wasApplied(manifest, id, number);
    if (applied === null)
      throw new BackendError(
        "Others went so far ahead that nobody can say whether this was applied",
        { operation: "commit", outcome: "unknown" },
      );
    return applied ? "committed" : "conflict";
  }

  /** Sends one write until it is answered. Sending it again is harmless: its condition holds for one of them at most. */
  async #send(file: string, body: Uint8Array, condition: Condition): Promise<Put> {
    for (let sent = 1; ; sent += 1) {
      try {
        const put = await this.#objects.put(this.#prefix + file, body, condition);
        if (put !== "again") return put;
        if (sent >= SENDS) throw new Error("other writes were under way each time");
      } catch (error) {
        if (sent >= SENDS) throw error;
      }
      await sleep(PAUSE_MS * sent * systemRandom.unit());
    }
  }

  get #manifestKey(): string {
    return `${this.#prefix}manifest`;
  }

  async #removeAll(files: readonly string[]): Promise<void> {
    for (const file of files) await this.#objects.remove(this.#prefix + file).catch(ignoreLeftover);
  }

  async #ready(): Promise<void> {
    this.#probed ??= this.#probe();
    try {
      await this.#probed;
    } catch (error) {
      this.#probed = undefined;
      throw error;
    }
  }

  /** A store that ignores conditions would let every stale holder write. */
  async #probe(): Promise<void> {
    const key = `${this.#prefix}probe-${randomId()}`;
    const body = Buffer.from("x");
    const put = async (condition: Condition): Promise<Put> =>
      step("open", "not-applied", async () => this.#objects.put(key, body, condition));
    const first = await put("absent");
    const second = await put("absent");
    const third = await put({ etag: '"00000000000000000000000000000000"' });
    await this.#removeAll([key.slice(this.#prefix.length)]);
    if (first !== "done" || second !== "refused" || third !== "refused")
      throw new BackendConfigError(
        "This object store does not refuse what If-None-Match and If-Match should refuse: it cannot guard anything",
        { operation: "open", outcome: "not-applied" },
      );
  }
}

/** An object that cannot be removed now is harmless: the change itself is decided. */
function ignoreLeftover(): undefined {
  return undefined;
}

function randomId(): string {
  return Buffer.from(systemRandom.bytes(15)).toString("base64url");
}

async function sleep(ms: number): Promise<void> {
  await new Promise<void>((done) => {
    systemClock.timer(ms, done, true);
  });
}

/** Runs one request; what the client says becomes a typed error. */
async function step<T>(
  operation: string,
  outcome: "not-applied" | "unknown",
  fn: () => Promise<T>,
): Promise<T> {
  try {
    return await fn();
  } catch (error) {
    if (error instanceof RingfenceError) throw error;
    const facts = { operation, outcome, cause: error };
    throw new BackendUnavailableError(`The object store failed during ${operation}`, facts);
  }
}
