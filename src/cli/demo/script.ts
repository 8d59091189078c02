/** How the resource defends itself, one arm of the story each. */
export type Arm = "no check" | "token on write" | "claim";

export type Role = "rider 1" | "rider 2";

/** The lease of a rider: short, so that the story is. */
export const TTL_MS = 1000;

/** What a rider tells the story-teller. */
export type Report =
  | { readonly what: "took"; readonly token: string; readonly takenOver: boolean }
  | { readonly what: "claimed" }
  | { readonly what: "read"; readonly text: string }
  | { readonly what: "stops" }
  | { readonly what: "wakes" }
  | { readonly what: "acted"; readonly accepted: boolean; readonly why: string };

/** The line that a rider adds to the delivery record. */
export function lineOf(role: Role): string {
  return `${role} was here`;
}
