/** The parameters of a URL that are a lease table's own, and the client library's. */
interface Split {
  /** `?sslmode=require`, or nothing. */
  readonly theirs: string;
  /** As the driver takes them; what a value may be is the driver's to say. */
  readonly ours: Readonly<Record<string, unknown>>;
}

/** Splits the parameters of a URL. */
export function splitParameters(query: URLSearchParams, names: readonly string[]): Split {
  const rest = new URLSearchParams([...query].filter(([key]) => !names.includes(key))).toString();
  const ours = names.flatMap((key) => {
    const value = query.get(key);
    return value === null ? [] : [[key, valueOf(key, value)] as const];
  });
  return { theirs: rest === "" ? "" : `?${rest}`, ours: Object.fromEntries(ours) };
}

function valueOf(key: string, text: string): unknown {
  if (key === "maxSessions") return Number(text);
  // Any other word is refused by the driver, which takes true or false only.
  if (key === "autoCreate") return text === "true" || text === "false" ? text === "true" : text;
  return text;
}

/** What a client library makes, or `undefined` where it is not installed. */
export async function installed<T>(make: () => Promise<T>): Promise<T | undefined> {
  try {
    return await make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}
