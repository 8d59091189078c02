/** The guarantee table, from what the drivers declare: one column a driver, one row for what may happen. */
import type { Declaration } from "../src/core/capabilities.ts";
import { list } from "../src/lab/index.ts";

/** A driver as the table shows it. */
export interface Column {
  readonly title: string;
  readonly declared: Declaration & { readonly name: string };
}

/** A cell: its words, and the scenarios that show it. */
interface Cell {
  readonly words: string;
  readonly shown: readonly string[];
}

interface Row {
  readonly what: string;
  readonly cell: (declared: Column["declared"]) => Cell;
}

const cell = (words: string, ...shown: string[]): Cell => ({ words, shown });

/** Whether the lock lives in several servers that vote. */
const votes = ({ name }: Column["declared"]): boolean => name === "redlock";
/** Whether nothing lies between the holder and the store. */
const isLocal = ({ clock }: Column["declared"]): boolean => clock === "host-monotonic";
/** Whether the lock is gone with the process. */
const inProcess = ({ name }: Column["declared"]): boolean => name === "memory";

const ROWS: readonly Row[] = [
  {
    what: "the holder is paused, or its work takes too long",
    cell: ({ liveness }) =>
      liveness === "ttl"
        ? cell("holds, by the deadline", "S01", "S17", "S22")
        : cell("holds, by the session", "S17"),
  },
  {
    what: "the holder's host sleeps",
    cell: () => cell("holds: elapsed time counts sleep", "S38"),
  },
  {
    what: "the holder is cut off from the store",
    cell: (declared) => (isLocal(declared) ? cell("–") : cell("holds", "S19")),
  },
  {
    what: "a message is lost, late or comes twice",
    cell: (declared) => (isLocal(declared) ? cell("–") : cell("holds", "S06", "S07", "S44", "S48")),
  },
  {
    what: "the wall clock of a client is moved",
    cell: () => cell("holds", "S57"),
  },
  {
    what: "the wall clock of the store is moved forward",
    cell: (declared) => {
      if (votes(declared)) return cell("holds for 2q − N − 1 of N servers", "S11");
      if (declared.clock === "server-wall") return cell("**breaks**: leases end early", "S11");
      return cell("holds: no lease ends by it", "S57");
    },
  },
  {
    what: "the store forgets: a restart, a lossy failover, eviction",
    cell: (declared) => {
      if (inProcess(declared)) return cell("– (the holders die with it)");
      if (votes(declared)) return cell("holds for 2q − N − 1 of N servers", "S12");
      if (declared.name === "postgres-advisory")
        return cell("**breaks** until the heartbeat: locks are in memory only");
      if (declared.fencing === "durable") return cell("holds, for what it has made durable");
      if (declared.clock === "host-monotonic")
        return cell("**breaks** where the last commits are lost");
      return cell("**breaks**", "S08", "S09", "S37");
    },
  },
  {
    what: "tokens of one name rise",
    cell: (declared) => {
      if (declared.fencing === "none") return cell("no token");
      const shown = votes(declared) ? ["S15", "S45"] : ["S08"];
      if (declared.fencing === "durable") return cell("`durable`: across every fault of the store");
      return cell("`volatile`: unless the store forgets and its clock is behind", ...shown);
    },
  },
  {
    what: "effects under a guard",
    cell: ({ fencing }) =>
      fencing === "none" ? cell("cannot be guarded") : cell("hold", "S01", "S04", "S08", "S43"),
  },
  {
    what: "who waited longest is next",
    cell: ({ waiting }) =>
      waiting === "queue"
        ? cell("holds; one is woken at a time", "S24", "S39")
        : cell("no order: everybody asks again"),
  },
  {
    what: "a wake-up is lost, or its receiver is dead",
    cell: () => cell("holds: somebody else looks", "S25", "S56"),
  },
  {
    what: "a job hangs while its lease is renewed",
    cell: () => cell("holds with `maxHold`", "S18"),
  },
  {
    what: "a holder vanished, and its packets are under way",
    cell: ({ liveness }) =>
      liveness === "session"
        ? cell("– (a session ends with its connection)")
        : cell("holds with `lockDelay`", "S23", "S46"),
  },
  {
    what: "a lease is handed to another process, twice",
    cell: ({ transfer }) =>
      transfer === "no"
        ? cell("refused: no hand-over")
        : cell(transfer === "yes" ? "holds: once" : "holds: once, on one host", "S49"),
  },
  {
    what: "a record outlives its holder, for `once`",
    cell: ({ retains }) => cell(retains === "no" ? "no" : retains),
  },
];

/** The scenarios that the table names, and what is expected of them. */
export function shownScenarios(): readonly string[] {
  const all: Column["declared"][] = [];
  for (const fencing of ["durable", "volatile", "none"] as const)
    for (const clock of ["server-wall", "host-monotonic", "none"] as const)
      for (const name of ["memory", "redlock", "other"])
        all.push({
          name,
          fencing,
          clock,
          waiting: "queue",
          liveness: clock === "none" ? "session" : "ttl",
          modes: ["exclusive"],
          ttl: { minMs: 1, stepMs: 1 },
          mints: "at-grant",
          transfer: "yes",
          retains: "yes",
        });
  return [...new Set(all.flatMap((one) => ROWS.flatMap((row) => row.cell(one).shown)))].sort();
}

/** The table as Markdown. */
export function guaranteeTable(columns: readonly Column[]): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    row(["", ...columns.map(({ title }) => title)]),
    row(["---", ...columns.map(() => "---")]),
    ...ROWS.map(({ what, cell: of }) =>
      row([what, ...columns.map(({ declared }) => linked(of(declared)))]),
    ),
  ].join("\n");
}

function linked({ words, shown }: Cell): string {
  if (shown.length === 0) return words;
  return `${words} (${shown.map((id) => `[${id}](lab.md#the-three-arms)`).join(", ")})`;
}

/** Every scenario of the lab as Markdown. */
export function scenarioTable(): string {
  const rows = list().map(({ id, name, title, property, arms, real }) => {
    const where = real === undefined ? "simulated" : "simulated, real";
    const fence = arms.fence.holds ? "holds" : "breaks";
    return `| ${id} | \`${name}\` | ${title} | ${property} | ${fence} | ${where} |`;
  });
  return [
    "| Scenario | Name | What happens | Property | Fence | Runs |",
    "|---|---|---|---|---|---|",
    ...rows,
  ].join("\n");
}
