/* How many requests a second the HTTP guard checks, with everything that it needs in memory. */
import { createLockManager } from "ringfence";
import { httpGuard } from "ringfence/guards/http";
import { memoryGuard, memoryStore } from "ringfence/guards/memory";
import { memoryDriver } from "ringfence/memory";
import { compare, now } from "./harness.ts";

const CHECKS = 50_000;
const keys = [{ kid: "k1", secret: "a secret of thirty-two characters" }];
const locks = createLockManager(memoryDriver(), { sequencerKeys: keys });
const signed = await locks.acquire("documents/7");
const plain = createLockManager(memoryDriver());
const unsigned = await plain.acquire("documents/7");

/** Requests as Node gives them, each a new object, and a response that nobody reads. */
function checks(guard: ReturnType<typeof httpGuard>, sequencer: string) {
  const response = {
    statusCode: 200,
    headersSent: false,
    setHeader: () => undefined,
    end: () => undefined,
  };
  const handle = guard.node((_request, _response, fence) => {
    if (fence === null) throw new Error("let through without a lease");
  });
  return async (): Promise<number> => {
    const start = now();
    for (let i = 0; i < CHECKS; i += 1)
      await handle({ method: "PUT", headers: { "ringfence-sequencer": sequencer } }, response);
    if (response.statusCode !== 200) throw new Error(`refused: ${response.statusCode}`);
    return CHECKS / ((now() - start) / 1000);
  };
}

const locksOf = { driver: "memory" };
await compare(
  {
    title: "HTTP check: header, signature, scope, newest seen",
    ours: "signed, one key",
    theirs: "unsigned",
    unit: "checks/s",
    target: "at least 50,000 signed checks a second in memory",
  },
  {
    ours: checks(
      httpGuard({ guard: memoryGuard(), db: memoryStore(), keys, locks: locksOf }),
      signed.sequencer,
    ),
    theirs: checks(
      httpGuard({ guard: memoryGuard(), db: memoryStore(), locks: locksOf }),
      unsigned.sequencer,
    ),
  },
);
await locks.close();
await plain.close();
