import { join } from "node:path";
import ts from "typescript";
import { entries, ROOT } from "./built.ts";

/** The public names of one entry: those that exist at run time, and those that are types only. */
export interface Surface {
  readonly values: readonly string[];
  readonly types: readonly string[];
}

/** The names that the built declarations of every entry export, by subpath. */
export function surfaces(): ReadonlyMap<string, Surface> {
  const files = entries().map(({ subpath, types }) => ({ subpath, file: join(ROOT, types) }));
  const program = ts.createProgram(
    files.map(({ file }) => file),
    { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2023, noLib: true, types: [] },
  );
  const checker = program.getTypeChecker();
  const namesOf = (file: string): Surface => {
    const source = program.getSourceFile(file);
    const symbol = source === undefined ? undefined : checker.getSymbolAtLocation(source);
    const exported = symbol === undefined ? [] : checker.getExportsOfModule(symbol);
    const isValue = (one: ts.Symbol): boolean => {
      const typeOnly = one.declarations?.some(
        (node) => ts.isExportSpecifier(node) && (node.isTypeOnly || node.parent.parent.isTypeOnly),
      );
      if (typeOnly === true) return false;
      const target = (one.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(one) : one;
      return (target.flags & ts.SymbolFlags.Value) !== 0;
    };
    const names = (list: readonly ts.Symbol[]): string[] => list.map(({ name }) => name).sort();
    return {
      values: names(exported.filter(isValue)),
      types: names(exported.filter((one) => !isValue(one))),
    };
  };
  return new Map(files.map(({ subpath, file }) => [subpath, namesOf(file)]));
}
