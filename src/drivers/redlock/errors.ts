import { DriverError } from "../../core/driver.ts";

/** What is known of one server that did not do as it was asked. */
export interface Cause {
  readonly label: string;
  readonly error: DriverError;
}

/** One server's failure, for `QuorumError.causes`: which one, and what it said. */
function causeOf({ label, error }: Cause): Error {
  return new DriverError(error.kind, error.outcome, `${label}: ${error.message}`, {
    cause: error.cause ?? error,
  });
}

/**
 * Too few servers answered. What no majority can get right by asking again (a password, a right, a wrong kind of server)
 * is an error of the configuration.
 */
export function tooFew(
  votes: { readonly got: number; readonly needed: number; readonly servers: number },
  causes: readonly Cause[],
  outcome: DriverError["outcome"],
): DriverError {
  const { got, needed, servers } = votes;
  const listed = causes.map(causeOf);
  const hopeless = causes.filter(({ error }) => error.kind === "config").length;
  const reasons = listed.map(({ message }) => message).join("; ");
  return new DriverError(
    hopeless > servers - needed ? "config" : "quorum",
    outcome,
    `${got} of ${servers} servers agreed, ${needed} are needed (${reasons})`,
    { cause: listed[0], votes: { got, needed, causes: listed } },
  );
}
