/* A file that several processes rewrite, guarded. */

import { memoryDriver } from "../src/drivers/memory/index.ts";
import { fileGuard, fileStore } from "../src/guards/file/index.ts";
import { createLockManager } from "../src/index.ts";

export async function main(
  folder: string,
): Promise<{ readonly visits: string | null; readonly pages: string | null }> {
  const locks = createLockManager(memoryDriver());
  const guard = fileGuard();
  const store = fileStore(folder);

  // One file, replaced by what becomes of its content.
  for (let visit = 0; visit < 3; visit += 1)
    await locks.request("visits", async (lease) => {
      await guard.update(store, "visits", lease, (current) => `${Number(current ?? "0") + 1}`);
    });

  // Two files that belong together are claimed together and change as one.
  await locks.request("site", async (lease) => {
    await guard.run(store, ["pages.json", "index.json"], lease, async (tx) => {
      const pages = JSON.parse((await tx.readText("pages.json")) ?? "[]") as string[];
      pages.push("about");
      tx.write("pages.json", JSON.stringify(pages));
      tx.write("index.json", JSON.stringify({ count: pages.length }));
    });
  });

  await locks.close();
  // Readers that hold nothing just read.
  return { visits: await store.readText("visits"), pages: await store.readText("pages.json") };
}
