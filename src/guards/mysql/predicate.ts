import type { Claim } from "../../core/guard.ts";
import { quoteIdentifier } from "./sql.ts";

/** A piece of SQL with `?` placeholders, and their values in order. Tokens are decimal text, cast where they compare. */
export interface SqlFragment {
  readonly text: string;
  readonly params: readonly string[];
}

/** A condition that claims: it belongs together with the assignments that install the pair, in one UPDATE. */
export interface ClaimFragment extends SqlFragment {
  /** For the SET clause, after the columns that the condition reads no more: the three fence columns. */
  readonly set: SqlFragment;
}

/** For INSERT: rows that are born with the holder's pair. */
export interface FenceValues extends SqlFragment {
  /** The three column names, quoted. */
  readonly columns: string;
}

/** The columns of a row that is fenced by itself. */
export interface FenceColumns {
  /** BIGINT; `"fence_token"` by default. */
  readonly token?: string;
  /** Text or bytes; `"fence_grant"` by default. */
  readonly grant?: string;
  /** Text or bytes; `"fence_scope"` by default. */
  readonly scope?: string;
}

/** What makes fragments for one set of column names. */
export interface Fragments {
  equal(claim: Claim): SqlFragment;
  rising(claim: Claim): ClaimFragment;
  born(claim: Claim): FenceValues;
}

/** @throws InvalidArgumentError for a name that is no identifier */
export function fragmentsFor(columns: FenceColumns): Fragments {
  const token = quoteIdentifier(columns.token ?? "fence_token", "columns.token");
  const grant = quoteIdentifier(columns.grant ?? "fence_grant", "columns.grant");
  const scope = quoteIdentifier(columns.scope ?? "fence_scope", "columns.scope");
  // A text column's collation may fold upper and lower case, which ids do not.
  const same = (column: string): string => `CAST(${column} AS BINARY) = CAST(? AS BINARY)`;
  return {
    equal: (claim) => ({
      text: `(${same(scope)} AND ${token} = CAST(? AS SIGNED) AND ${same(grant)})`,
      params: [claim.scope, claim.token.toString(), claim.grantId],
    }),
    rising(claim) {
      const number = claim.token.toString();
      return {
        text: `(${token} IS NULL OR (${same(scope)} AND (${token} < CAST(? AS SIGNED) OR (${token} = CAST(? AS SIGNED) AND ${same(grant)}))))`,
        params: [claim.scope, number, number, claim.grantId],
        set: {
          text: `${token} = CAST(? AS SIGNED), ${grant} = ?, ${scope} = ?`,
          params: [number, claim.grantId, claim.scope],
        },
      };
    },
    born: (claim) => ({
      columns: `${token}, ${grant}, ${scope}`,
      text: "CAST(? AS SIGNED), ?, ?",
      params: [claim.token.toString(), claim.grantId, claim.scope],
    }),
  };
}
