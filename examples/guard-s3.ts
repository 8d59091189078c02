/* A compaction job over an object store: segments are replaced by one, as one change. */
import { memoryDriver } from "../src/drivers/memory/index.ts";
import { s3Guard, s3Store } from "../src/guards/s3/index.ts";
import { createLockManager } from "../src/index.ts";

export async function main(
  bucket: string,
): Promise<{ readonly merged: string | null; readonly segment: string | null }> {
  const locks = createLockManager(memoryDriver());
  const guard = s3Guard();
  // Or { client: new S3({ … }), bucket: "reports" } with the AWS SDK, which signs.
  const store = s3Store({ url: bucket, prefix: "logs/" });

  for (const line of ["a", "b"])
    await locks.request("logs", async (lease) => {
      await guard.update(store, `segment-${line}`, lease, () => `${line}\n`);
    });

  await locks.request("logs", async (lease) => {
    await guard.run(store, "logs", lease, async (tx) => {
      const parts = [await tx.readText("segment-a"), await tx.readText("segment-b")];
      tx.write("merged", parts.join(""));
      tx.delete("segment-a");
      tx.delete("segment-b");
    });
  });

  await locks.close();
  // Readers that hold nothing just read.
  return { merged: await store.readText("merged"), segment: await store.readText("segment-a") };
}
