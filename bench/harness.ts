/**
 * Side-by-side measuring. Two subjects run in turns, since a busy machine changes its speed from second to second:
 * only figures from the same moment compare. What is told is the median of each side and the median of the ratios of
 * the pairs, with every raw figure above it; nothing is asserted.
 */

/** Something whose speed is measured: one run answers a rate (larger is better) or a time (smaller is better). */
export type Subject = () => Promise<number>;

interface Sides {
  readonly ours: Subject;
  readonly theirs: Subject;
}

interface Words {
  /** What is compared, and with what. */
  readonly title: string;
  readonly ours: string;
  readonly theirs: string;
  readonly unit: string;
  /** What the project aims at, as one would say it. */
  readonly target: string;
  /** How many pairs; at least 9. */
  readonly pairs?: number;
  /** How many runs of each side, in turns, make one figure of a pair; 1 by default. A disk stalls for longer than a run. */
  readonly slices?: number;
  /** Unmeasured runs of each side before the first pair; 1 by default. */
  readonly warmUps?: number;
  /** Digits behind the point; 0 by default. */
  readonly digits?: number;
}

/** The middle value; of an even number of them the mean of the middle two. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value below which a share `q` of the values lies, interpolated. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const [low, high] = [sorted[Math.floor(at)] ?? NaN, sorted[Math.ceil(at)] ?? NaN];
  return low + (high - low) * (at - Math.floor(at));
}

/** Prints one line. */
export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** A figure with thousands set apart. */
export function figure(value: number, digits = 0): string {
  return value.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** Runs both sides in turns, the first of each pair alternating, and prints what came of it. Returns the ratio. */
export async function compare(words: Words, sides: Sides): Promise<number> {
  const pairs = Math.max(9, words.pairs ?? 9);
  const digits = words.digits ?? 0;
  // First unmeasured: compilation, caches, files.
  for (let run = 0; run < (words.warmUps ?? 1); run += 1) {
    await sides.ours();
    await sides.theirs();
  }
  const [ours, theirs]: [number[], number[]] = [[], []];
  const slices = words.slices ?? 1;
  for (let pair = 0; pair < pairs; pair += 1) {
    let [our, their] = [0, 0];
    for (let slice = 0; slice < slices; slice += 1) {
      const first = (pair + slice) % 2 === 0;
      if (first) our += await sides.ours();
      their += await sides.theirs();
      if (!first) our += await sides.ours();
      // A subject that never waits would keep timers from running.
      await new Promise((resolve) => setImmediate(resolve));
    }
    ours.push(our / slices);
    theirs.push(their / slices);
  }
  const ratios = ours.map((value, i) => value / (theirs[i] ?? NaN));
  const row = (name: string, values: readonly number[], places: number): void => {
    const raw = values.map((value) => figure(value, places)).join("  ");
    say(`  ${name.padEnd(22)} median ${figure(median(values), places).padStart(10)}   [${raw}]`);
  };
  say(`\n${words.title} (${words.unit}, ${pairs} pairs)`);
  row(words.ours, ours, digits);
  row(words.theirs, theirs, digits);
  row("ratio", ratios, 2);
  say(`  target: ${words.target}`);
  return median(ratios);
}

/** What one worker of several got: the smallest and the largest, as parts of the mean. */
export function shares(counts: readonly number[]): {
  readonly least: number;
  readonly most: number;
} {
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return { least: Math.min(...counts) / mean, most: Math.max(...counts) / mean };
}

/** Milliseconds for measuring, monotonic. */
export function now(): number {
  return performance.now();
}
