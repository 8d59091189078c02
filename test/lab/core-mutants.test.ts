import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type * as CoreVariant from "../fixtures/core-variant.ts";
import { bundle } from "../support/bundle.ts";

type Variant = typeof CoreVariant;

/** One change to the text of the core, and who notices it: a scenario, or an exploration from a seed on. */
interface CoreMutant {
  readonly name: string;
  readonly from: RegExp;
  readonly to: string;
  readonly killer: string | readonly ["core" | "sqlite", number];
}

const MUTANTS: readonly CoreMutant[] = [
  {
    name: "the deadline counts from the reply, not from the request",
    from: /this\.#owner\.granted\(this, answer, this\.#sentAt\)/g,
    to: "this.#owner.granted(this, answer, this.#engine.holderClock.now())",
    killer: ["core", 8],
  },
  {
    name: "a renewal counts from its reply",
    from: /tenure\.renewed\(sentAt, (?=Math)/g,
    to: "tenure.renewed(this.#clock.now(), ",
    killer: ["sqlite", 29],
  },
  {
    name: "the clock is not read again when the grant arrives",
    from: /\|\| now >= tenure\.deadline\)(\s+)return "too-late"/g,
    to: ') return "too-late"',
    killer: ["sqlite", 29],
  },
  {
    name: "no margin for clocks that run at different rates",
    from: /return ttlMs \* ratio \+ Math\.min\(250, Math\.max\(20, ttlMs \* (0?\.05)\)\);/g,
    to: "return 0;",
    killer: ["core", 6],
  },
  {
    name: "time that the host slept does not count",
    from: /return mono \+ this\.#sleptMs;/g,
    to: "return mono;",
    killer: "S38",
  },
  {
    name: "the longest hold is not looked at",
    from: /else if \(now >= this\.holdUntil\)/g,
    to: "else if (false)",
    killer: "S18",
  },
  {
    name: "several names are taken in the order given",
    from: /unique\.sort\(\((\w+), (\w+)\) => compareNames\(\1\.name, \2\.name\)\);/g,
    to: "",
    killer: "S36",
  },
  {
    name: "a renewal for less is believed to leave what was there before",
    from: /this\.deadline = Math\.min\(\s*this\.deadline,/g,
    to: "this.deadline = Math.max(this.deadline,",
    killer: ["core", 1],
  },
  {
    name: "a lease is handed on inside the process without a look at what is left of it",
    from: /if \(!this\.#mayHandOn\(tenure, next, now\)\)\s*return false;/g,
    to: "",
    killer: ["sqlite", 1],
  },
  {
    name: "an unknown outcome is taken for a failure",
    from: /if \((\w+)\.outcome === "unknown"\)\s*this\.late = true;/g,
    to: "",
    killer: "S44",
  },
  {
    name: "a renewal that finds the lease gone is one that failed",
    from: /if \((renewal\$?\d*)\.kind === "gone"\) \{/g,
    to: "if (false) {",
    killer: "renewal-of-nothing",
  },
  {
    name: "an acquire that was given up is not taken back",
    from: /return await this\.#giveBack\(this\.late \|\| inFlight\);/g,
    to: 'return { kind: "released" };',
    killer: "abandoned-acquire",
  },
];

let built: Awaited<ReturnType<typeof bundle>>;
beforeAll(async () => {
  built = await bundle("test/fixtures/core-variant.ts");
}, 120_000);
afterAll(() => {
  built.remove();
});

/** By Node itself: the test runner would first look at every line of it. */
function load(file: string): Variant {
  return createRequire(import.meta.url)(file) as Variant;
}

let variants = 0;

/** The core with one change, and everything that judges it. */
function variantOf({ from, to }: CoreMutant): Variant {
  const text = readFileSync(built.file, "utf8");
  expect(text.match(from)?.length, "places that the change fits").toBe(1);
  variants += 1;
  const file = join(dirname(built.file), `variant-${variants}.mjs`);
  writeFileSync(file, text.replace(from, to));
  return load(file);
}

/** Whether the killer finds nothing wrong. */
async function survives(variant: Variant, killer: CoreMutant["killer"]): Promise<boolean> {
  if (typeof killer !== "string") {
    const [store, seed] = killer;
    const subject = store === "core" ? variant.coreSubject() : variant.fileSubject();
    return (await variant.search(subject, { seed, runs: 40 })).found === null;
  }
  const scenario = [...variant.SCENARIOS, ...variant.TRAPS].find(({ id }) => id === killer)!;
  try {
    return (await variant.playOnce(scenario, "ringfence", 1)).verdict.verdict !== false;
  } catch (error) {
    // The scheduler refuses a world in which time stands still.
    expect(String(error)).toContain("something spins");
    return false;
  }
}

it.each(MUTANTS.map((mutant) => [mutant.name, String(mutant.killer), mutant] as const))(
  "a wrong core is noticed: %s (%s)",
  { timeout: 60_000 },
  async (_name, _killer, mutant) => {
    expect(await survives(variantOf(mutant), mutant.killer)).toBe(false);
  },
);

it("the right core passes whatever kills a wrong one", { timeout: 60_000 }, async () => {
  const right = load(built.file);
  for (const killer of new Set(MUTANTS.map((mutant) => mutant.killer)))
    if (typeof killer === "string")
      expect([killer, await survives(right, killer)]).toEqual([killer, true]);
});
