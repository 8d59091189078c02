import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BackendUnavailableError } from "../../src/core/errors.ts";
import type { Presented } from "../../src/core/guard.ts";
import {
  type SequencerKey,
  type SequencerPayload,
  writeSequencer,
} from "../../src/core/sequencer.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import {
  type HttpGuardOptions,
  httpGuard,
  type Problem,
  type Requirement,
} from "../../src/guards/http/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { createLockManager } from "../../src/index.ts";
import { systemMac } from "../../src/runtime/system-mac.ts";
import { id } from "../../src/testing/guard-contract/world.ts";
import { type Connection, temporaryFolder } from "../support/guard-fixtures.ts";
import { Documents, FRAMEWORKS, type Listening } from "../support/http-servers.ts";

const OLD: SequencerKey = { kid: "2026-10", secret: "the key of last month" };
const NEW: SequencerKey = { kid: "2026-11", secret: "the key of this month" };
const NAME = "documents/7";
const SCOPE = id();

type Ask = (
  method: string,
  sequencer?: string | readonly string[],
  text?: string,
  at?: string,
) => Promise<{ readonly status: number; readonly text: string; readonly headers: Headers }>;
type Options = Partial<HttpGuardOptions<Connection, Connection, void>>;

let folder: ReturnType<typeof temporaryFolder>;
let db: Connection;
let documents: Documents;
const servers: Listening[] = [];

beforeEach(() => {
  folder = temporaryFolder();
  db = new Database(`${folder.path}/documents.db`);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;");
  documents = new Documents(db);
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  db.close();
  folder.remove();
});

/** A holder that some lock service let in. */
function holder(token: bigint, parts: Partial<SequencerPayload> = {}): SequencerPayload {
  return { name: NAME, mode: "exclusive", token, grantId: id(), scope: SCOPE, ...parts };
}

function signed(payload: SequencerPayload, key: SequencerKey | undefined = NEW): string {
  return writeSequencer(payload, key, systemMac);
}

describe.each(FRAMEWORKS)("the HTTP guard on $name", ({ start }) => {
  /** A server of its own, that is a process of its own as far as memory goes. */
  async function server(options: Options = {}, require?: Requirement): Promise<Ask> {
    const guard = httpGuard({ guard: sqliteGuard(), db, keys: [NEW, OLD], ...options });
    const listening = await start(guard, documents, require);
    servers.push(listening);
    return async (method, sequencer, text = "", at = "7") => {
      const headers = new Headers({ "content-type": "text/plain" });
      for (const one of [sequencer ?? []].flat()) headers.append("Ringfence-Sequencer", one);
      const body = method === "GET" ? {} : { body: text };
      const response = await fetch(`${listening.url}/documents/${at}`, {
        method,
        headers,
        ...body,
      });
      return { status: response.status, text: await response.text(), headers: response.headers };
    };
  }

  it("answers 409 to a stale holder and takes its write back, however it is found out", async () => {
    const [one, other] = [await server(), await server()];
    const [a, b] = [signed(holder(33n)), signed(holder(34n))];
    expect((await one("PUT", a, "by A")).status).toBe(204);
    // Through another server: the first one has only ever seen A.
    expect((await other("GET", b)).text).toBe("by A");
    const late = await one("PUT", a, "late, by A");
    expect(late.status).toBe(409);
    expect(late.headers.get("content-type")).toBe("application/problem+json");
    expect(JSON.parse(late.text)).toMatchObject({
      type: "urn:ringfence:stale-token",
      status: 409,
      code: "ERR_STALE_TOKEN",
      resource: NAME,
      presented: "33",
      highest: "34",
      step: "verify",
    });
    expect((await other("PUT", b, "by B")).status).toBe(204);
    // Now refused before its handler, and on the server that has seen B without asking the store.
    expect(JSON.parse((await one("GET", a)).text)).toMatchObject({ step: "claim", highest: "34" });
    expect((await other("PUT", a, "later, by A")).status).toBe(409);
    expect(documents.read("7")).toBe("by B");
  });

  it("answers 400 to what is no sequencer, or not one that can claim", async () => {
    const ask = await server();
    const good = signed(holder(33n));
    for (const bad of [
      "",
      "33",
      `${good}x`,
      good.replace("rf1", "rf2"),
      signed({ ...holder(33n), mode: "shared" }),
      signed(holder(33n), { ...NEW, secret: "of somebody else, but long" }),
      signed(holder(33n), { ...NEW, kid: "unknown" }),
      writeSequencer(holder(33n), undefined, systemMac),
      [good, good],
    ]) {
      const answer = await ask("PUT", bad, "forged");
      expect([answer.status, bad]).toEqual([400, bad]);
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
      expect(JSON.parse(answer.text)).toMatchObject({
        type: "urn:ringfence:malformed",
        status: 400,
      });
    }
    expect((await ask("PUT", good, "fine")).status).toBe(204);
    expect(documents.read("7")).toBe("fine");
  });

  it("takes signatures of every listed key, so that keys can rotate", async () => {
    const [before, during, after] = [
      await server({ keys: [OLD] }),
      await server({ keys: [NEW, OLD] }),
      await server({ keys: [NEW] }),
    ];
    const [byOld, byNew] = [signed(holder(33n), OLD), signed(holder(34n), NEW)];
    const statusOf = async (ask: typeof before, sequencer: string): Promise<number> =>
      (await ask("GET", sequencer)).status;
    expect(await statusOf(before, byOld)).toBe(200);
    expect(await statusOf(before, byNew)).toBe(400);
    expect(await statusOf(during, byOld)).toBe(200);
    expect(await statusOf(during, byNew)).toBe(200);
    expect(await statusOf(after, byOld)).toBe(400);
    expect(await statusOf(after, byNew)).toBe(200);
  });

  it("answers 409 to a lease of another lock, and of another lock manager", async () => {
    const locks = createLockManager(memoryDriver(), { namespace: "docs", sequencerKeys: [NEW] });
    const strangers = createLockManager(memoryDriver(), { sequencerKeys: [NEW] });
    const ask = await server({ locks: { driver: "memory", namespace: "docs" } });
    await locks.request(NAME, async (lease) => {
      expect((await ask("PUT", lease.sequencer, "mine")).status).toBe(204);
      const elsewhere = await ask("PUT", lease.sequencer, "mine", "8");
      expect([elsewhere.status, (JSON.parse(elsewhere.text) as Problem).type]).toEqual([
        409,
        "urn:ringfence:wrong-scope",
      ]);
    });
    await strangers.request(NAME, async (lease) => {
      const answer = await ask("PUT", lease.sequencer, "of a stranger");
      expect([answer.status, (JSON.parse(answer.text) as Problem).code]).toEqual([
        409,
        "ERR_GUARD_SCOPE",
      ]);
    });
    expect([documents.read("7"), documents.read("8")]).toEqual(["mine", ""]);
    await locks.close();
    await strangers.close();
  });

  it("answers 409 to a scope that the resource does not belong to, also without `locks`", async () => {
    const ask = await server();
    await ask("GET", signed(holder(33n)));
    const answer = await ask("PUT", signed(holder(99n, { scope: id() })), "from elsewhere");
    expect([answer.status, (JSON.parse(answer.text) as Problem).type]).toEqual([
      409,
      "urn:ringfence:wrong-scope",
    ]);
  });

  it("answers 428 to a request that must have a lease and has none", async () => {
    const [writes, always, never] = [
      await server(),
      await server({}, "always"),
      await server({}, "never"),
    ];
    const refused = await writes("PUT", undefined, "without");
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([
      428,
      { type: "urn:ringfence:sequencer-required" },
    ]);
    expect((await writes("GET")).status).toBe(200);
    expect((await always("GET")).status).toBe(428);
    expect((await never("PUT", undefined, "without")).status).toBe(204);
    expect((await never("PUT", "nonsense", "with")).status).toBe(400);
    expect(documents.read("7")).toBe("without");
  });

  it("answers 503 while the store of the guard does not answer, and goes on afterwards", async () => {
    const inner = sqliteGuard();
    let down = true;
    const ask = await server({
      guard: {
        claim: async (...args) => {
          if (down)
            throw new BackendUnavailableError("db.internal:5432 is gone", {
              operation: "claim",
              outcome: "not-applied",
            });
          return inner.claim(...args);
        },
        verify: (tx, resources, credential: Presented) => {
          inner.verify(tx, resources, credential);
        },
      },
    });
    const mine = signed(holder(33n));
    const answer = await ask("PUT", mine, "early");
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(answer.text).not.toContain("internal");
    down = false;
    expect((await ask("PUT", mine, "late")).status).toBe(204);
  });

  it("leaves what the handler throws to the framework", async () => {
    const ask = await server();
    const answer = await ask("PUT", signed(holder(33n)), "boom");
    expect(answer.status).toBe(500);
    expect(answer.headers.get("content-type") ?? "").not.toContain("problem");
    expect((await ask("PUT", signed(holder(34n)), "fine")).status).toBe(204);
  });
});
