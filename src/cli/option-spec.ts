/** One option, as Commander is told of it. */
export interface OptionSpec {
  /** The heading of the help that it stands under. */
  readonly group: string;
  /** `-w, --wait <duration>`, `--shared`, `-n, --no-wait` */
  readonly flags: string;
  readonly description: string;
}

/** What stands in the flags of an option; Commander's own `Option` has these too. */
export interface OptionFlags {
  readonly short?: string | undefined;
  readonly long?: string | undefined;
  /** A value follows. */
  readonly required: boolean;
}

/** Takes the flags of an option apart. */
export function flagsOf({ flags }: Pick<OptionSpec, "flags">): OptionFlags {
  return {
    short: /^-\w\b/.exec(flags)?.[0],
    long: /--[\w-]+/.exec(flags)?.[0],
    required: flags.includes("<"),
  };
}
