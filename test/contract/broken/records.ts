import { type BrokenDriver, twisted } from "./broken-driver.ts";

/** Faults in what people are shown. */
export const RECORDS_FAULTS: readonly BrokenDriver[] = [
  twisted(
    "the list is not sorted",
    "lists the names that are held, sorted by their encoded bytes, and only those asked for",
    (inner) => ({
      async list(page, io) {
        const { names, ...rest } = await inner.list(page, io);
        return { ...rest, names: [...names].reverse() };
      },
    }),
  ),
  twisted(
    "the list is sorted by characters",
    "lists the names that are held, sorted by their encoded bytes, and only those asked for",
    (inner) => ({
      async list(page, io) {
        const { names, ...rest } = await inner.list(page, io);
        return { ...rest, names: [...names].sort() };
      },
    }),
  ),
  twisted(
    "the prefix is ignored",
    "lists the names that are held, sorted by their encoded bytes, and only those asked for",
    (inner) => ({
      list: async (page, io) => inner.list({ ...page, prefix: "" }, io),
    }),
  ),
  twisted(
    "a page begins with the last name of the one before",
    "lists in pages, without gaps and without repeats",
    (inner) => ({
      async list(page, io) {
        const { names, cursor } = await inner.list(page, io);
        return cursor === undefined ? { names } : { names, cursor: cursor.slice(0, -1) };
      },
    }),
  ),
  twisted(
    "seconds for milliseconds",
    "shows who holds a name, since when and for how long",
    (inner) => ({
      async inspect(name, io) {
        const record = await inner.inspect(name, io);
        const holders = record.holders.map((holder) => ({
          ...holder,
          sinceMs: (holder.sinceMs ?? 0) / 1000,
        }));
        return { ...record, holders };
      },
    }),
  ),
];
