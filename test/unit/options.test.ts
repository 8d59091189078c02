import { describe, expect, it } from "vitest";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { createLockManager, InvalidArgumentError } from "../../src/index.ts";

const manager = createLockManager(memoryDriver());
const YEAR = 365 * 24 * 3_600_000;

async function acquire(options: object, name = "a"): Promise<void> {
  const lease = await manager.acquire(name, options);
  await lease.release();
}
async function refused(work: Promise<unknown>, message?: RegExp): Promise<void> {
  const error = await work.then(
    () => null,
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(InvalidArgumentError);
  if (message !== undefined) expect((error as Error).message).toMatch(message);
}

const NEVER_A_DURATION: readonly unknown[] = [
  -1,
  NaN,
  Infinity,
  -Infinity,
  "",
  " ",
  "30",
  "30 s",
  "1.5s",
  "-5s",
  "5 minutes",
  "s",
  "1e3ms",
  "0x10ms",
  "30S",
  null,
  true,
  {},
  [],
  10n,
  () => 1,
  "1000000000000000000ms",
];

describe("durations", () => {
  for (const option of ["ttl", "wait", "maxHold", "lockDelay"]) {
    it(`refuses as ${option} whatever is no duration, and says what was expected`, async () => {
      for (const value of NEVER_A_DURATION)
        await refused(
          acquire({ [option]: value }),
          new RegExp(`Expected \`${option}\` to be .*got `),
        );
    });
  }

  it("takes a ttl from 50 ms to 365 days, whole or not, number or text", async () => {
    for (const ttl of [
      50,
      50.5,
      1000,
      2 ** 31,
      2 ** 31 + 1,
      YEAR,
      "50ms",
      "30s",
      "5m",
      "1h",
      "365d",
    ])
      await acquire({ ttl });
    for (const ttl of [0, 1, 49, 49.9, YEAR + 1, "366d", "400d", "49ms"])
      await refused(acquire({ ttl }), /`ttl`/);
  });

  it("takes a wait from 0 to 365 days, or forever", async () => {
    for (const wait of [0, 0.5, 1, "0s", "forever", 2 ** 31, YEAR, "365d"]) await acquire({ wait });
    for (const wait of [YEAR + 1, "400d", "never"]) await refused(acquire({ wait }), /`wait`/);
  });

  it("takes a lock-delay up to 60 s and a longest hold from 50 ms", async () => {
    for (const lockDelay of [0, "0ms", 60_000, "60s", "1m"]) await acquire({ lockDelay });
    for (const lockDelay of [60_001, "61s", "2m"])
      await refused(acquire({ lockDelay }), /`lockDelay`/);
    for (const maxHold of [50, "1h", "365d"]) await acquire({ maxHold });
    for (const maxHold of [0, 49, "400d"]) await refused(acquire({ maxHold }), /`maxHold`/);
  });

  it("guesses what was meant", async () => {
    await refused(acquire({ ttl: "30" }), /Did you mean "30ms" or "30s"\?/);
    await refused(acquire({ ttl: "5 minutes" }), /Did you mean "5m"\?/);
    await refused(acquire({ tll: "5s" }), /Did you mean `ttl`\?/);
    await refused(acquire({ Wait: 5 }), /Did you mean `wait`\?/);
    await refused(acquire({ retries: 5 }), /Known: /);
  });

  it("waits as long as 400 days would be if a timer could not: long waits do not fire at once (B83)", async () => {
    const lease = await manager.acquire("long");
    const aborter = new AbortController();
    const waiting = manager.acquire("long", { wait: "300d", signal: aborter.signal });
    const early = await Promise.race([
      waiting.then(
        () => "ended",
        () => "ended",
      ),
      new Promise((r) => setTimeout(r, 30)),
    ]);
    expect(early).toBeUndefined();
    aborter.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    await lease.release();
  });
});

describe("other options", () => {
  it("refuses impossible values of each, and nothing is left behind", async () => {
    const bad: readonly object[] = [
      { mode: "permits" },
      { mode: "write" },
      { mode: 1 },
      { keepalive: "yes" },
      { keepalive: true },
      { label: 5 },
      { label: "x".repeat(257) },
      { metadata: { a: 1 } },
      { metadata: [] },
      { metadata: "x" },
      { metadata: { a: "x".repeat(5000) } },
      { signal: {} },
      { signal: "now" },
      { above: 5 },
      { above: -1n },
      { above: 2n ** 62n },
      { ifAvailable: true },
      { reentrant: true },
    ];
    for (const options of bad) await refused(acquire(options));
    await refused(manager.acquire("a", [] as never));
    await refused(manager.acquire("a", null as never));
    await refused(manager.tryAcquire("a", { wait: 5 } as never));
    await refused(manager.request("a", 5 as never));
    await refused(manager.request("a", {}, undefined as never));
    await refused(manager.request("a", { ifAvailable: true, wait: 5 } as never, () => 1));
    await refused(manager.request("a", { ifAvailable: 1 } as never, () => 1));
    await refused(manager.request("a", { reentrant: "yes" } as never, () => 1));
    await refused(manager.request("a", { guard: {} } as never, () => 1));
    expect((await manager.query()).held).toEqual([]);
  });

  it("takes permits from 1 to 1,000,000 and only whole ones", () => {
    for (const permits of [1, 2, 1_000_000]) manager.semaphore("p", { permits });
    for (const permits of [0, -1, 1.5, NaN, Infinity, "3", null, undefined, 1_000_001])
      expect(() => manager.semaphore("p", { permits: permits as number })).toThrow(
        InvalidArgumentError,
      );
    expect(() => manager.semaphore("p", {} as { permits: number })).toThrow(InvalidArgumentError);
    expect(() => manager.semaphore("", { permits: 1 })).toThrow(InvalidArgumentError);
  });

  it("refuses what a permit cannot have, and a wait where there is none", async () => {
    const permits = createLockManager(memoryDriver()).semaphore("a", { permits: 2 });
    for (const call of [
      permits.acquire({ above: 5n }),
      permits.acquire({ mode: "shared" } as never),
      permits.tryAcquire({ wait: "5s" } as never),
      permits.request({ above: 5n }, () => 1),
    ])
      await expect(call).rejects.toThrow(InvalidArgumentError);
  });

  it("refuses impossible options of a manager", () => {
    const bad: readonly object[] = [
      { ttl: 10 },
      { ttl: "x" },
      { wait: -1 },
      { namespace: "" },
      { namespace: 5 },
      { backendId: "a\n" },
      { marginRatio: 0 },
      { marginRatio: 0.3 },
      { marginRatio: NaN },
      { marginRatio: "0.1" },
      { handOff: "on" },
      { handOff: true },
      { requestTimeout: 0 },
      { drain: -1 },
      { drain: "later" },
      { holder: { label: 5 } },
      { holder: { lable: "a" } },
      { holder: "me" },
      { history: "file" },
      { history: { path: "file" } },
      { history: {} },
      { require: { fencing: "duarble" } },
      { require: { fencng: "durable" } },
      { require: { waiting: "poll" } },
      { require: { survivesServerClockSteps: "yes" } },
      { sequencerKeys: 5 },
      { detectReentry: "no" },
      { trustSettings: 1 },
      { sequencerKeys: [{ kid: "", secret: "x".repeat(16) }] },
      { sequencerKeys: [{ kid: "a", secret: "short" }] },
      { sequencerKeys: [{ kid: "a.b", secret: "x".repeat(16) }] },
      { nameSpace: "a" },
      { retry: 5 },
    ];
    for (const options of bad)
      expect(
        () => createLockManager(memoryDriver(), options as never),
        JSON.stringify(options),
      ).toThrow(InvalidArgumentError);
    expect(() => createLockManager({} as never)).toThrow(/Expected a driver/);
    expect(() => createLockManager(undefined as never)).toThrow(/Expected a driver/);
  });

  it("refuses impossible options of query, revoke and once", async () => {
    await refused(manager.query({ limit: 0 }));
    await refused(manager.query({ limit: 10_001 }));
    await refused(manager.query({ prefix: 5 } as never));
    await refused(manager.query({ prefx: "a" } as never));
    await refused(manager.revoke("a", { reason: " " }));
    await refused(manager.revoke("a", { reason: "x", grantId: "nope" }));
    await refused(manager.once("a", { keep: 0 }, () => 1));
    await refused(manager.once("a", { keep: "1h", at: "tomorrow" }, () => 1));
    await refused(manager.once("a", { keep: "1h", retryOnError: 1 } as never, () => 1));
    await refused(manager.once("a", { keep: "1h" }, 5 as never));
    await refused(manager.once("a", {} as never, () => 1));
    await refused(manager.acquireAll([]));
    await refused(manager.acquireAll("ab" as never));
  });
});

describe("names", () => {
  it("takes what is 1 to 512 bytes of UTF-8 in NFC", async () => {
    const good = [
      "a",
      "x".repeat(512),
      "é".repeat(256),
      "a b/c:d{e}",
      "%",
      "..",
      "*?[]",
      "名前",
      "\u{1F512}",
      "-",
      "a\u00a0b",
    ];
    for (const name of good) await acquire({}, name);
  });

  it("refuses everything else with the reason, and never changes a name", async () => {
    const bad: readonly [unknown, RegExp][] = [
      ["", /at least one/],
      ["x".repeat(513), /512 bytes/],
      ["é".repeat(257), /512 bytes/],
      ["x".repeat(1_000_000), /512 bytes/],
      ["a\0b", /control/],
      ["a\nb", /control/],
      ["\u007f", /control/],
      ["\u0085", /control/],
      ["a\ud800", /surrogate/],
      ["e\u0301", /normal form C/],
      [5, /a string/],
      [null, /a string/],
      [undefined, /a string/],
      [{}, /a string/],
    ];
    for (const [name, message] of bad) {
      await refused(manager.acquire(name as string), message);
      await refused(manager.inspect(name as string), message);
    }
  });

  it("keeps twins apart: case, width, composed forms of other letters", async () => {
    const twins = ["lock", "Lock", "ｌｏｃｋ", "lock ", "1\u006fck", "l\u043eck"];
    const leases = await Promise.all(twins.map(async (name) => manager.acquire(name, { wait: 0 })));
    expect(leases).toHaveLength(twins.length);
    await Promise.all(leases.map(async (lease) => lease.release()));
  });
});
