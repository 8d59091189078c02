import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "vite";

const ROOT = resolve(import.meta.dirname, "../..");

/**
 * Bundles a TypeScript file for child processes, which then start as fast as plain JavaScript. The file lies inside the
 * repository, so that packages are found from it.
 */
export async function bundle(entry: string): Promise<{ readonly file: string; remove(): void }> {
  mkdirSync(join(ROOT, ".cache"), { recursive: true });
  const folder = mkdtempSync(join(ROOT, ".cache", "bundle-"));
  await build({
    configFile: false,
    logLevel: "error",
    root: ROOT,
    build: {
      ssr: resolve(ROOT, entry),
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      rolldownOptions: { output: { entryFileNames: "entry.mjs" } },
    },
  });
  return {
    file: join(folder, "entry.mjs"),
    remove: () => {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
