import { span, who } from "../checkers/words.ts";
import type { Ev } from "../history.ts";
import type { Layout } from "./layout.ts";

const LEFT = 150;
const RIGHT = 60;
const TOP = 56;
const LANE = 52;
const LEVELS = 3;

/** Text for HTML and SVG, in elements and in attributes. */
export function escapeXml(text: string): string {
  return text
    .replace(/[&<>"']/g, (sign) => `&#${sign.codePointAt(0) ?? 32};`)
    .replace(/[^\P{Cc}\n\t]/gu, "\uFFFD");
}

/**
 * Draws a timeline: a lane for each client with bars of belief, and one for each resource. Shapes and labels carry the
 * meaning, so that it reads without colour and in print. `numbered`: events that the text speaks of.
 */
export function drawTimeline(layout: Layout, numbered: ReadonlyMap<number, number>): string {
  const { clients, resources, width } = layout;
  const lanes = [
    ...clients.map((p) => `client ${p}`),
    ...resources.map((res) => `resource ${res}`),
  ];
  const height = TOP + lanes.length * LANE + 30;
  const laneOf = new Map(lanes.map((lane, n) => [lane, TOP + n * LANE]));
  const total = LEFT + width + RIGHT;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Timeline" viewBox="0 0 ${px(total)} ${height}" width="${px(total)}" height="${height}">`,
    PATTERNS,
    ...lanes.map((lane, n) => drawLane(lane, TOP + n * LANE, total)),
    ...drawTicks(layout, height),
    ...drawAbsences(layout, laneOf),
    ...drawBars(layout, laneOf),
    ...drawMarks(layout, laneOf),
    ...drawWitnesses(layout, numbered, height),
    "</svg>",
  ];
  return parts.join("\n");
}

const PATTERNS = `<defs>
<pattern id="paused" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" class="hatch"/></pattern>
<pattern id="dead" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 0L6 6M6 0L0 6" class="hatch"/></pattern>
</defs>`;

function drawLane(lane: string, y: number, total: number): string {
  const space = lane.indexOf(" ");
  const [kind, name] = [lane.slice(0, space), lane.slice(space + 1)];
  return `<g><line x1="0" y1="${y + LANE}" x2="${px(total)}" y2="${y + LANE}" class="lane"/><text x="4" y="${y + 20}" class="name">${escapeXml(short(name, 20))}<title>${escapeXml(name)}</title></text><text x="4" y="${y + 34}" class="kind">${kind}</text></g>`;
}

function drawTicks({ marks, bars, x, from }: Layout, height: number): string[] {
  const times = [
    ...new Set([...marks.map(({ t }) => t), ...bars.flatMap((bar) => [bar.from, bar.to])]),
  ];
  times.sort((a, b) => a - b);
  const ticks: string[] = [];
  let next = -Infinity;
  for (const t of times) {
    const at = x(t);
    if (at < next) continue;
    next = at + 76;
    ticks.push(
      `<line x1="${px(LEFT + at)}" y1="${TOP - 14}" x2="${px(LEFT + at)}" y2="${height}" class="tick"/><text x="${px(LEFT + at)}" y="${TOP - 20}" class="time">${escapeXml(span(t - from))}</text>`,
    );
  }
  return ticks;
}

function drawAbsences({ absences, x }: Layout, laneOf: ReadonlyMap<string, number>): string[] {
  return absences.map(({ p, kind, from, to }) => {
    const y = laneOf.get(`client ${p}`) ?? 0;
    const [left, right] = [LEFT + x(from), LEFT + x(to)];
    return `<g><rect x="${px(left)}" y="${y + 2}" width="${px(right - left)}" height="${LANE - 4}" fill="url(#${kind})"/><text x="${px(left + 3)}" y="${y + 13}" class="note">${kind}</text></g>`;
  });
}

function drawBars({ bars, x, from }: Layout, laneOf: ReadonlyMap<string, number>): string[] {
  return bars.map((bar) => {
    const { lease } = bar;
    const y = (laneOf.get(`client ${lease.p}`) ?? 0) + 18;
    const [left, right] = [LEFT + x(bar.from), LEFT + x(bar.to)];
    const label = lease.token === undefined ? lease.grant.slice(0, 6) : lease.token.toString();
    const title = `${who(lease)} may believe that it holds ${lease.lock}, ${span(bar.from - from)} to ${span(bar.to - from)}`;
    return `<g><rect x="${px(left)}" y="${y}" width="${px(Math.max(2, right - left))}" height="14" rx="2" class="bar"/><text x="${px(left + 3)}" y="${y + 11}" class="token">${escapeXml(label)}</text><title>${escapeXml(title)}</title></g>`;
  });
}

/** A shape for each kind of event: told apart by form, not by colour. */
function shapeOf({ f, k, accepted }: Ev): { shape: string; label: string } {
  const refused = accepted === false;
  if (f === "write") {
    if (refused) return { shape: `<path d="M-5-5L5 5M5-5L-5 5" class="bold"/>`, label: "refused" };
    return { shape: `<path d="M0-6L6 5L-6 5Z" class="solid"/>`, label: "write" };
  }
  if (f === "claim") {
    const mark = `<path d="M0-6L6 0L0 6L-6 0Z" class="${refused ? "open" : "solid"}"/>`;
    return { shape: mark, label: refused ? "claim refused" : "claim" };
  }
  if (f === "read") return { shape: `<circle r="4.5" class="open"/>`, label: "read" };
  if (f === "effect")
    return {
      shape: `<rect x="-5" y="-5" width="10" height="10" class="${refused ? "open" : "solid"}"/>`,
      label: refused ? "replayed" : "effect",
    };
  if (f === "lost") return { shape: `<path d="M0-7V2M0 5V7" class="bold"/>`, label: "told lost" };
  if (f === "release" && k === "invoke")
    return { shape: `<path d="M0-7V7M0-7H-5M0 7H-5" class="bold"/>`, label: "" };
  if (k === "info") return { shape: `<circle r="6" class="dashed"/>`, label: `${f}?` };
  const what = f.replace("fault.", "").replace("srv.", "server: ");
  return { shape: `<path d="M0-7V7" class="bold"/>`, label: what };
}

function drawMarks({ marks, x, from }: Layout, laneOf: ReadonlyMap<string, number>): string[] {
  const levels = new Map<number, number>();
  return marks.map((event) => {
    const { f, res, p, ver } = event;
    const acts = f === "claim" || f === "read" || f === "write";
    const lane =
      res !== undefined && acts ? laneOf.get(`resource ${res}`) : laneOf.get(`client ${p}`);
    const base = lane ?? 0;
    const level = (levels.get(base) ?? -1) + 1;
    levels.set(base, level);
    const y = lane === undefined ? TOP - 4 : base + (acts ? 14 : 38);
    const at = LEFT + x(event.t);
    const { shape, label } = shapeOf(event);
    const by = acts && res !== undefined ? ` ${short(who(event), 14)}` : "";
    const version = ver === undefined ? "" : ` v${ver}`;
    const text = f === "fault.pause" || f === "fault.kill" ? "" : `${label}${version}${by}`;
    const dy = acts ? 14 + (level % LEVELS) * 9 : 12;
    return [
      `<g transform="translate(${px(at)} ${y})">${shape}`,
      text === "" ? "" : `<text y="${dy}" class="label">${escapeXml(text)}</text>`,
      `<title>${escapeXml(describe(event, from))}</title></g>`,
    ].join("");
  });
}

/** Numbered lines for the events that the verdicts speak of; those of one moment stand side by side. */
function drawWitnesses(
  { events, x }: Layout,
  numbered: ReadonlyMap<number, number>,
  height: number,
): string[] {
  let next = -Infinity;
  return events.flatMap(({ i, t }) => {
    const number = numbered.get(i);
    if (number === undefined) return [];
    const at = LEFT + x(t);
    const badge = Math.max(at, next);
    next = badge + 19;
    return [
      `<g><path d="M${px(badge)} 19L${px(at)} ${TOP - 6}V${height}" class="witness"/><circle cx="${px(badge)}" cy="10" r="9" class="badge"/><text x="${px(badge)}" y="14" class="number">${number}</text></g>`,
    ];
  });
}

/** An event in one line. */
export function describe(event: Ev, originNs: number): string {
  const { f, k, lock, res, ver, from, accepted, err, path, idem } = event;
  const parts = [
    span(event.t - originNs),
    who(event),
    k === "event" ? f : `${f} ${k}`,
    ...(lock === undefined ? [] : [`lock ${lock}`]),
    ...(res === undefined ? [] : [`resource ${res}`]),
    ...(idem === undefined ? [] : [`key ${idem}`]),
    ...(from === undefined ? [] : [`from v${from}`]),
    ...(ver === undefined ? [] : [`v${ver}`]),
    ...(accepted === undefined ? [] : [accepted ? "accepted" : "refused"]),
    ...(path === undefined ? [] : [`by ${path}`]),
    ...(err === undefined ? [] : [err]),
  ];
  return parts.join(", ");
}

function short(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}
