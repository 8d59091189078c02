import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative, resolve, sep } from "node:path";
import ts from "typescript";

/** Source text by path below `src/`, with forward slashes. */
export type Sources = ReadonlyMap<string, string>;

/** Which units a unit may import: `layer`, or `layer/folder` for one of its folders. Not listed means forbidden. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  runtime: ["core"],
  "drivers/*": ["core"],
  "drivers/redlock": ["core", "drivers/redis"],
  "drivers/postgres": ["core", "drivers/sql"],
  "drivers/mysql": ["core", "drivers/sql"],
  "drivers/http": ["core", "protocol"],
  "guards/*": ["core", "runtime"],
  connect: ["core", "drivers/*/index"],
  protocol: ["core"],
  server: ["core", "runtime", "guards/*", "protocol", "connect", "index"],
  dashboard: ["protocol"],
  testing: ["core", "runtime"],
  lab: ["core", "runtime", "testing", "drivers/*", "guards/*", "connect", "index"],
  cli: ["*"],
  index: ["core", "runtime"],
};

/** Only these layers may not see Node's own modules; `core` sees no module at all. */
const NO_NODE: readonly string[] = ["core", "dashboard"];

/**
 * Packages by the unit that may import them. The library part has none, except that SQLite on a Node without
 * `node:sqlite` loads its optional substitute when it is first used, and that a URL needs a client library.
 */
const PACKAGES: Record<string, readonly string[]> = {
  cli: ["commander"],
  server: ["hono", "@hono/node-server", "zod", "prom-client"],
  "drivers/sqlite": ["libsql"],
  "guards/sqlite": ["libsql"],
  "drivers/postgres": ["postgres"],
  "drivers/mysql": ["mysql2"],
  connect: ["ioredis", "redis", "pg", "postgres", "mysql2"],
};

/** Packages that a static import must not name: they are only loaded when they are needed. */
const ON_DEMAND: readonly string[] = ["libsql", "ioredis", "redis", "pg", "postgres", "mysql2"];

/** One import of a file, of any spelling. */
interface Import {
  readonly specifier: string;
  /** Loaded with the file; `import("x")`, `require("x")` and types are not. */
  readonly loads: boolean;
}

/** Reads every TypeScript file below a folder. */
export function readSources(folder: string): Sources {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  );
  return new Map(
    files.map((file) => [
      file.split(sep).join(posix.sep),
      readFileSync(join(folder, file), "utf8"),
    ]),
  );
}

/** The imports of one file, read by the compiler: comments and strings are not imports. */
function importsOf(text: string): Import[] {
  const found: Import[] = [];
  const add = (node: ts.Node | undefined, loads: boolean): void => {
    if (node !== undefined && ts.isStringLiteralLike(node))
      found.push({ specifier: node.text, loads });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node))
      add(node.moduleSpecifier, node.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword);
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, !node.isTypeOnly);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      add(node.argument.literal, false);
    else if (ts.isCallExpression(node)) {
      const called = node.expression.getText();
      if (node.expression.kind === ts.SyntaxKind.ImportKeyword || called === "require")
        add(node.arguments[0], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile("file.ts", text, ts.ScriptTarget.Latest, true));
  return found;
}

/** The unit that a file belongs to: its layer, or its folder where each folder is a unit of its own. */
export function unitOf(path: string): string {
  const [head = "", folder = ""] = path.split("/");
  if (head === "drivers" || head === "guards") return `${head}/${folder.replace(/\.ts$/, "")}`;
  return head.replace(/\.ts$/, "");
}

/** The path below `src/` that a relative specifier of `from` names. */
function targetOf(from: string, specifier: string): string {
  const target = relative("/", resolve("/", dirname(from), specifier));
  return target.split(sep).join(posix.sep).replace(/\.js$/, ".ts");
}

function rulesOf(unit: string): readonly string[] {
  return MAY_IMPORT[unit] ?? MAY_IMPORT[`${unit.split("/")[0] ?? ""}/*`] ?? [];
}

function allows(rule: string, target: string): boolean {
  const [pattern, path] = [rule.split("/"), target.replace(/\.ts$/, "").split("/")];
  return rule === "*" || pattern.every((part, i) => part === "*" || part === path[i]);
}

function isNode(specifier: string): boolean {
  return specifier.startsWith("node:");
}

function problemOf(path: string, { specifier, loads }: Import): string | null {
  const unit = unitOf(path);
  if (isNode(specifier)) return NO_NODE.includes(unit) ? "knows no host" : null;
  if (!specifier.startsWith(".")) {
    if (!(PACKAGES[unit] ?? []).includes(specifier)) return "is not a package of this layer";
    return loads && ON_DEMAND.includes(specifier) ? "is loaded on demand only" : null;
  }
  const target = targetOf(path, specifier);
  const same = unitOf(target) === unit;
  return same || rulesOf(unit).some((rule) => allows(rule, target))
    ? null
    : "is not below this layer";
}

/** Imports that the layer table or the package table forbids: `file -> specifier: why`. */
export function violations(sources: Sources): string[] {
  return [...sources].flatMap(([path, text]) =>
    importsOf(text).flatMap((one) => {
      const problem = problemOf(path, one);
      return problem === null ? [] : [`${path} -> ${one.specifier}: ${problem}`];
    }),
  );
}

/** Files and modules reached from `entries`; with `loadedOnly`, those that come with importing them. */
export function closure(
  sources: Sources,
  entries: readonly string[],
  loadedOnly = false,
): ReadonlySet<string> {
  const reached = new Set<string>();
  const visit = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    for (const { specifier, loads } of importsOf(sources.get(path) ?? "")) {
      if (loadedOnly && !loads) continue;
      visit(specifier.startsWith(".") ? targetOf(path, specifier) : specifier);
    }
  };
  for (const entry of entries) visit(entry);
  return reached;
}

/** The code of a file without its comments: what it says, not what it says about it. */
function withoutComments(text: string): string {
  const file = ts.createSourceFile("file.ts", text, ts.ScriptTarget.Latest, true);
  const words: string[] = [];
  const visit = (node: ts.Node): void => {
    const children = node.getChildren(file).filter((child) => !ts.isJSDoc(child));
    if (children.length === 0) words.push(node.getText(file));
    children.forEach(visit);
  };
  visit(file);
  return words.join(" ");
}

const BACKENDS = /redis|redlock|sqlite|postgres|zookeeper|etcd|dynamo|mysql/i;

/** Places in core's code (not in its comments, where an example may help) that spell a backend's name. */
export function backendNames(sources: Sources): string[] {
  return [...sources]
    .filter(([path]) => unitOf(path) === "core")
    .flatMap(([path, text]) => {
      const found = BACKENDS.exec(withoutComments(text));
      return found === null ? [] : [`${path}: ${found[0]}`];
    });
}
