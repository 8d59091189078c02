/** A named statement. A simulator answers by the name; a server is given the text. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** One statement and its parameters: all text, since every statement casts its own. */
export interface Call {
  readonly statement: Statement;
  readonly args: readonly (string | null)[];
}

/** A statement with its parameters, `$1` and so on, put in as `encode` writes them. */
export function inlined(
  { statement, args }: Call,
  encode: (text: string | null) => string,
): string {
  return statement.text.replace(/\$(\d+)/g, (_, n: string) => encode(args[Number(n) - 1] ?? null));
}
