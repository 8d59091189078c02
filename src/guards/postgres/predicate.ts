import { InvalidArgumentError } from "../../core/errors.ts";
import type { Claim } from "../../core/guard.ts";
import { quoteIdentifier } from "./sql.ts";

/** A template tag that makes fragments: the `sql` of `postgres`, and those of most query builders. */
export type SqlTag<F> = (strings: TemplateStringsArray, ...values: string[]) => F;

/** A piece of SQL with numbered placeholders, and their values in order. Tokens are decimal text, cast where they compare. */
export interface SqlFragment {
  readonly text: string;
  readonly params: readonly string[];
  /** The same piece as a nested fragment of a template tag. */
  tag<F>(sql: SqlTag<F>): F;
}

/** A condition that claims: it belongs together with the assignments that install the pair, in one UPDATE. */
export interface ClaimFragment extends SqlFragment {
  /** For the SET clause: the three fence columns. Its placeholders follow those of the condition. */
  readonly set: SqlFragment;
}

/** For INSERT: rows that are born with the holder's pair. */
export interface FenceValues extends SqlFragment {
  /** The three column names, quoted: `INSERT INTO t (id, <columns>) VALUES ($1, <text>)`. */
  readonly columns: string;
}

/** The columns of a row that is fenced by itself. */
export interface FenceColumns {
  /** BIGINT; `"fence_token"` by default. */
  readonly token?: string;
  /** Text; `"fence_grant"` by default. */
  readonly grant?: string;
  /** Text; `"fence_scope"` by default. */
  readonly scope?: string;
}

/** Where a fragment's placeholders begin. */
export interface Numbering {
  /** The number of the first placeholder, 1 by default: one more than the values before it. */
  readonly from?: number;
}

/** What makes fragments for one set of column names. */
export interface Fragments {
  equal(claim: Claim, numbering?: Numbering): SqlFragment;
  rising(claim: Claim, numbering?: Numbering): ClaimFragment;
  born(claim: Claim, numbering?: Numbering): FenceValues;
}

/** @throws InvalidArgumentError for a name that is no identifier */
export function fragmentsFor(columns: FenceColumns): Fragments {
  const token = quoteIdentifier(columns.token ?? "fence_token", "columns.token");
  const grant = quoteIdentifier(columns.grant ?? "fence_grant", "columns.grant");
  const scope = quoteIdentifier(columns.scope ?? "fence_scope", "columns.scope");
  // Without casts where the columns say the types: parsing and planning them costs more than comparing.
  const equal = new Template([`(${scope} = `, ` AND ${token} = `, ` AND ${grant} = `, ")"]);
  const rising = new Template([
    `(${token} IS NULL OR (${scope} = `,
    `::text AND (${token} < `,
    `::text::bigint OR (${token} = `,
    `::text::bigint AND ${grant} = `,
    "::text))))",
  ]);
  const set = new Template([
    `${token} = `,
    `::text::bigint, ${grant} = `,
    `::text, ${scope} = `,
    "::text",
  ]);
  const born = new Template(["", "::text::bigint, ", "::text, ", "::text"]);
  return {
    equal: (claim, numbering) =>
      equal.with([claim.scope, claim.token.toString(), claim.grantId], numbering),
    rising(claim, numbering) {
      const number = claim.token.toString();
      const condition = rising.with([claim.scope, number, number, claim.grantId], numbering);
      const after = { from: (numbering?.from ?? 1) + condition.params.length };
      return Object.assign(condition, {
        set: set.with([number, claim.grantId, claim.scope], after),
      });
    },
    born: (claim, numbering) =>
      Object.assign(born.with([claim.token.toString(), claim.grantId, claim.scope], numbering), {
        columns: `${token}, ${grant}, ${scope}`,
      }),
  };
}

/** Texts that one piece is kept with. */
const MOST_TEXTS = 64;

/** A piece of SQL with places for values. */
class Template {
  readonly #strings: readonly string[];
  /** Its text by the number of the first placeholder: made once, since a hot statement asks for it every time. */
  readonly #texts = new Map<number, string>();

  constructor(strings: readonly string[]) {
    this.#strings = strings;
  }

  with(params: readonly string[], { from = 1 }: Numbering = {}): Filled {
    let text = this.#texts.get(from);
    if (text === undefined) {
      text = this.#textFrom(from);
      // Numbers that go on and on are one statement each, of which none is hot.
      if (this.#texts.size < MOST_TEXTS) this.#texts.set(from, text);
    }
    return new Filled(text, params, this.#strings);
  }

  #textFrom(from: number): string {
    if (!Number.isInteger(from) || from < 1)
      throw new InvalidArgumentError(
        "Expected `from` to be the number of a placeholder, 1 or more.",
      );
    const [first = "", ...others] = this.#strings;
    return first + others.map((part, i) => `$${from + i}${part}`).join("");
  }
}

class Filled implements SqlFragment {
  readonly text: string;
  readonly params: readonly string[];
  readonly #strings: readonly string[];

  constructor(text: string, params: readonly string[], strings: readonly string[]) {
    this.text = text;
    this.params = params;
    this.#strings = strings;
  }

  tag<F>(sql: SqlTag<F>): F {
    const strings = [...this.#strings];
    return sql(Object.assign(strings, { raw: [...strings] }), ...this.params);
  }
}
