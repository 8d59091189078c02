import { createRequire } from "node:module";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type S3Client,
  type S3Store,
  type S3Transaction,
  s3Guard,
  s3Store,
} from "../../src/guards/s3/index.ts";
import { begin } from "../../src/guards/s3/store.ts";
import { describeGuardContract, type GuardFixture } from "../../src/testing/index.ts";
import { ObjectServer } from "../fixtures/object-server.ts";

let server: ObjectServer;
let prefixes = 0;
beforeAll(async () => {
  server = await ObjectServer.start();
});
afterAll(async () => {
  await server.stop();
});

/** The SDK comes with the packages that only tests need. */
interface Sdk {
  readonly S3: new (options: object) => S3Client & { destroy(): void };
}
let sdk: S3Client | undefined;
function sdkClient(): S3Client {
  sdk ??= makeSdkClient();
  return sdk;
}

function makeSdkClient(): S3Client {
  const { S3 } = createRequire(new URL("../servers/package.json", import.meta.url))(
    "@aws-sdk/client-s3",
  ) as Sdk;
  return new S3({
    endpoint: server.endpoint,
    region: "us-east-1",
    forcePathStyle: true,
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
}

const PLACES = [
  { name: "fetch", at: () => ({ url: `${server.endpoint}/bucket` }) },
  { name: "AWS SDK", at: () => ({ client: sdkClient(), bucket: "bucket" }) },
] as const;

function fixture({ name, at }: (typeof PLACES)[number]): GuardFixture<S3Store, S3Transaction> {
  return {
    name: `s3 (${name})`,
    bodies: "async",
    has: { openTransactions: true, fencedRows: false },
    async open() {
      const prefix = `t${(prefixes += 1)}/`;
      return {
        db: s3Store({ ...at(), prefix }),
        other: s3Store({ ...at(), prefix }),
        guard: s3Guard,
        transaction: async (store, body) => store.transaction(async (tx) => body(tx)),
        read: async (tx, key) => tx.readText(key),
        write: (tx, key, value) => {
          tx.write(key, value);
        },
        async begin(store) {
          const tx = await begin(store);
          return {
            tx,
            async commit() {
              if ((await tx.commit()) !== "committed") throw new Error("conflict");
            },
            rollback: async () => {
              tx.finish();
            },
          };
        },
        close: async () => undefined,
      };
    },
  };
}

for (const place of PLACES) describeGuardContract({ describe, it }, fixture(place));

const holder = (token: bigint) =>
  ({ token, grantId: `g${token}`.padEnd(27, "-"), scope: "s".repeat(27), trust: true }) as const;

describe.each(PLACES)("the S3 guard over $name", ({ at }) => {
  const fresh = (): S3Store => s3Store({ ...at(), prefix: `p${(prefixes += 1)}/` });

  it("applies a change once although its answers are lost", async () => {
    const [store, guard] = [fresh(), s3Guard()];
    await guard.update(store, "count", holder(1n), () => "1");
    for (const lost of [1, 2, 3]) {
      server.losesAnswers = lost;
      await guard.update(store, "count", holder(1n), (n) => `${Number(n) + 1}`);
    }
    expect(await store.readText("count")).toBe("4");
  });

  it("sends a write again while another one is under way", async () => {
    const [store, guard] = [fresh(), s3Guard()];
    await guard.claim(store, "a", holder(1n));
    server.conflicts = 2;
    await guard.update(store, "a", holder(1n), () => "written");
    expect(await store.readText("a")).toBe("written");
  });

  it("leaves one object per file and the manifest behind, however often they change", async () => {
    const prefix = `left${(prefixes += 1)}/`;
    const [store, guard] = [s3Store({ ...at(), prefix }), s3Guard()];
    for (let i = 0; i < 5; i += 1) await guard.update(store, "a", holder(1n), () => `${i}`);
    const left = [...server.objects.keys()].filter((key) => key.includes(prefix));
    expect(left.map((key) => key.split(prefix)[1]?.slice(0, 2)).sort()).toEqual(["c/", "ma"]);
  });

  it("refuses a store that ignores conditions, at its first use", async () => {
    server.ignoresConditions = true;
    await expect(s3Guard().claim(fresh(), "a", holder(1n))).rejects.toMatchObject({
      code: "ERR_BACKEND_CONFIG",
    });
    server.ignoresConditions = false;
  });
});

it("the S3 guard says that the outcome is unknown when nobody answers a commit", async () => {
  const store = s3Store({ url: `${server.endpoint}/bucket`, prefix: "silent/" });
  await s3Guard().claim(store, "a", holder(1n));
  server.losesAnswers = 4;
  await expect(s3Guard().claim(store, "a", holder(1n))).rejects.toMatchObject({
    code: "ERR_BACKEND_UNAVAILABLE",
    outcome: "unknown",
  });
  server.losesAnswers = 0;
});

it("refuses what is no place for objects", () => {
  for (const wrong of [
    {},
    { url: "nowhere" },
    { client: {}, bucket: "b" },
    { client: { putObject: () => 1 }, bucket: "" },
  ])
    expect(() => s3Store(wrong as never)).toThrow(/Expected/);
});
