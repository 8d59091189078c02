import { join } from "node:path";
import ts from "typescript";
import { beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "./built.ts";

/** What the compiler says about one use of a guard, as one line. */
let messages: ReadonlyMap<string, string>;

/** The use, and the words with which the compiler has to name what is wrong. */
const WRONG: Readonly<Record<string, readonly [use: string, words: RegExp]>> = {
  "a lease of a driver without fencing": [
    'await guard.claim({}, "x", none);',
    /is missing .* token\b/,
  ],
  "a lease of a driver that is known at run time only": [
    'await guard.claim({}, "x", maybe);',
    /is missing .* token\b/,
  ],
  "a shared lease": [
    'await guard.claim({}, "x", shared);',
    /property 'mode' .*'"shared"' is not assignable to type '"exclusive"'/,
  ],
  "a permit": [
    'await guard.claim({}, "x", permit);',
    /'"permits"' is not assignable to type '"exclusive"'/,
  ],
  "a bare pair that nobody vouches for": [
    'await guard.claim({}, "x", { token: 5n, grantId: "g", scope: "s" });',
    /Property 'trust' is missing/,
  ],
  "a fetch under a lease without fencing": ["fencedFetch(none);", /is missing .* token\b/],
};

const HEAD = `
import type { MemoryCapabilities } from "../../src/drivers/memory/index.ts";
import { fencedFetch } from "../../src/guards/http/index.ts";
import { type Capabilities, createLockManager, type Driver, type Guard } from "../../src/index.ts";
interface Cheap extends Capabilities {
  readonly fencing: "none"; readonly waiting: "poll"; readonly liveness: "ttl";
  readonly clock: "server-wall"; readonly modes: "exclusive";
}
declare const memory: Driver<MemoryCapabilities>;
declare const cheap: Driver<Cheap>;
declare const unknown: Driver;
declare const guard: Guard<object, object>;
const none = await createLockManager(cheap).acquire("a");
const maybe = await createLockManager(unknown).acquire("a");
const shared = await createLockManager(memory).acquire("a", { mode: "shared" });
const permit = await createLockManager(memory).semaphore("a", { permits: 2 }).acquire();
`;

beforeAll(() => {
  const file = join(ROOT, "test/types/wrong-uses.ts");
  const uses = Object.entries(WRONG);
  const text = `${HEAD}${uses.map(([, [use]]) => use).join("\n")}\nexport { fencedFetch };\n`;
  const first = HEAD.split("\n").length - 1;
  const config = ts.readConfigFile(join(ROOT, "tsconfig.json"), (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, ROOT);
  const host = ts.createCompilerHost(options);
  const readSource = host.getSourceFile.bind(host);
  host.getSourceFile = (path, ...rest) =>
    path === file
      ? ts.createSourceFile(path, text, ts.ScriptTarget.ES2023)
      : readSource(path, ...rest);
  host.fileExists = (path) => path === file || ts.sys.fileExists(path);
  const program = ts.createProgram([file], options, host);
  const source = program.getSourceFile(file);
  messages = new Map(
    program.getSemanticDiagnostics(source).map(({ start = 0, messageText }) => {
      const line = source?.getLineAndCharacterOfPosition(start).line ?? 0;
      const said = ts.flattenDiagnosticMessageText(messageText, " ").replace(/\s+/g, " ");
      return [uses[line - first]?.[0] ?? `line ${line}`, said];
    }),
  );
}, 120_000);

describe("the compiler refuses as a guard's credential, and names what is wrong with it:", () => {
  it.each(Object.entries(WRONG))("%s", (use, [, words]) => {
    expect(messages.get(use)).toMatch(words);
  });

  it("and nothing else of that file", () => {
    expect([...messages.keys()].sort()).toEqual(Object.keys(WRONG).sort());
  });
});
