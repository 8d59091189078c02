/** What became of a statement that got no reply. `sent` false: nothing that could change anything left this process. */
export class LinkError extends Error {
  override readonly name: string = "LinkError";
  readonly sent: boolean;
  readonly late: boolean;
  constructor(
    message: string,
    facts: { readonly sent: boolean; readonly late?: boolean; readonly cause?: unknown },
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.sent = facts.sent;
    this.late = facts.late === true;
  }
}
