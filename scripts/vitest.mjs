import { join } from "node:path";
import { cleanEnv, root, run } from "./host.mjs";
import { prepareServers } from "./servers.mjs";
import { setup } from "./setup.mjs";

/** Sets up, and runs the tests that `args` choose (Vitest's own arguments). Returns the exit code. */
export async function runTests(args, env = {}) {
  await setup();
  const missing = await prepareServers();
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  // The reporter counts a missing server as a failure in CI, beside the tests that needed it.
  return await run([process.execPath, vitest, "run", ...args], {
    stdout: 1,
    env: { ...cleanEnv(), RINGFENCE_MISSING: missing.join(" "), ...env },
  });
}
