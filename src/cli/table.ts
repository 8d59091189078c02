import { isatty } from "node:tty";
import { wantsColor } from "./color.ts";

/** A table on a terminal; elsewhere plain columns, with one tab between them and no header, for `cut` and `awk`. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  forPeople: boolean = isatty(1),
): string {
  // A tab or a newline inside a cell would be read as the next cell or row.
  const cells = rows.map((row) => row.map((cell) => cell.replace(/\p{Cc}/gu, " ")));
  if (!forPeople) return cells.map((row) => `${row.join("\t")}\n`).join("");
  const widths = header.map((title, i) =>
    Math.max(title.length, ...cells.map((row) => (row[i] ?? "").length)),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd();
  const title = wantsColor(1) ? `\u001B[1m${line(header)}\u001B[22m` : line(header);
  return `${[title, ...cells.map(line)].join("\n")}\n`;
}
