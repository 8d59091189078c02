import type { Claim } from "../../core/guard.ts";
import { quoteIdentifier } from "./sql.ts";

/** A piece of SQL with `?` placeholders, and their values in order. Tokens are decimal text, cast where they compare. */
export interface SqlFragment {
  readonly text: string;
  readonly params: readonly string[];
}

/** A condition that claims: it belongs together with the assignments that install the pair, in one UPDATE. */
export interface ClaimFragment extends SqlFragment {
  /** For the SET clause: the three fence columns. */
  readonly set: SqlFragment;
}

/** The columns of a row that is fenced by itself. */
export interface FenceColumns {
  /** Integer; `"fence_token"` by default. */
  readonly token?: string;
  /** Text; `"fence_grant"` by default. */
  readonly grant?: string;
  /** Text; `"fence_scope"` by default. */
  readonly scope?: string;
}

/** What makes fragments for one set of column names. */
export interface Fragments {
  equal(claim: Claim): SqlFragment;
  rising(claim: Claim): ClaimFragment;
}

/** @throws InvalidArgumentError for a name that is no identifier */
export function fragmentsFor(columns: FenceColumns): Fragments {
  const token = quoteIdentifier(columns.token ?? "fence_token", "columns.token");
  const grant = quoteIdentifier(columns.grant ?? "fence_grant", "columns.grant");
  const scope = quoteIdentifier(columns.scope ?? "fence_scope", "columns.scope");
  const text = {
    equal: `(${scope} = ? AND ${token} = CAST(? AS INTEGER) AND ${grant} = ?)`,
    rising: `(${token} IS NULL OR (${scope} = ? AND (${token} < CAST(? AS INTEGER) OR (${token} = CAST(? AS INTEGER) AND ${grant} = ?))))`,
    set: `${token} = CAST(? AS INTEGER), ${grant} = ?, ${scope} = ?`,
  };
  return {
    equal: (claim) => ({
      text: text.equal,
      params: [claim.scope, claim.token.toString(), claim.grantId],
    }),
    rising(claim) {
      const number = claim.token.toString();
      return {
        text: text.rising,
        params: [claim.scope, number, number, claim.grantId],
        set: { text: text.set, params: [number, claim.grantId, claim.scope] },
      };
    },
  };
}
