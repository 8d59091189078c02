/** Text by path from the project's root. */
export type Files = ReadonlyMap<string, string>;

const CODE = /^(src|test|scripts|bench|examples)\/.*\.(ts|mjs)$|^[^/]+\.(ts|js)$/;
const MAX_LINES = 500;

// Spelled in two parts, so that this file does not accuse itself.
const word = (...parts: string[]): string => parts.join("");
const UNFINISHED = new RegExp(
  `\\b(${[word("TO", "DO"), word("FIX", "ME"), word("XX", "X"), word("not impl", "emented")].join("|")})\\b`,
);
const MACHINE = new RegExp(word("/(wo", "rk|fa", "rm)/|/tmp/w", "t-"));
const REGISTRY = new RegExp(word("https?://(regi", "stry|deb|pypi|pro", "xy)[.]"));
const SILENCED = new RegExp(word("@ts-(ig", "nore|nocheck)|eslint-dis", "able|biome-ig", "nore"));
const ESCAPES = new RegExp(word("@ts-expect-er", "ror"));
const EMPTY_CATCH = /catch(?: \(\w+\))? \{\s*\}/;
const FOCUSED = /\b(it|test|describe)\.(skip|only|todo)\b/;

interface Rule {
  readonly what: string;
  readonly where: RegExp;
  readonly finds: (text: string) => boolean;
}

const RULES: readonly Rule[] = [
  {
    what: `more than ${MAX_LINES} lines`,
    where: CODE,
    finds: (text) => text.trimEnd().split("\n").length > MAX_LINES,
  },
  { what: "something unfinished", where: CODE, finds: (text) => UNFINISHED.test(text) },
  { what: "a path of one machine", where: /./, finds: (text) => MACHINE.test(text) },
  { what: "a registry's host", where: /./, finds: (text) => REGISTRY.test(text) },
  { what: "a silenced check", where: CODE, finds: (text) => SILENCED.test(text) },
  { what: "an escape from the types", where: /^src\//, finds: (text) => ESCAPES.test(text) },
  { what: "an empty catch", where: /^src\//, finds: (text) => EMPTY_CATCH.test(text) },
  {
    what: "a test that is skipped or alone",
    where: /^test\/.*\.test\.ts$/,
    finds: (text) => FOCUSED.test(text),
  },
];

/** What the files show against the project's own rules: `path: what`. */
export function untidy(files: Files): string[] {
  return [...files].flatMap(([path, text]) =>
    RULES.filter(({ where, finds }) => where.test(path) && finds(text)).map(
      ({ what }) => `${path}: ${what}`,
    ),
  );
}
