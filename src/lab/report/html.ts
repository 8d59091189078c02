import type { Verdict } from "../checkers/index.ts";
import type { Ev, HistoryHeader } from "../history.ts";
import { layoutOf } from "./layout.ts";
import { describe, drawTimeline, escapeXml } from "./svg.ts";

/** What a report shows. */
export interface ReportInput {
  readonly title: string;
  readonly header?: HistoryHeader | undefined;
  readonly events: readonly Ev[];
  readonly verdicts: readonly Verdict[];
  readonly warnings?: readonly string[];
}

/** More than this nobody looks at, and browsers become slow: the report says what it left out. */
const MAX_EVENTS = 600;

/**
 * One self-contained page: verdicts in plain words, a timeline, the events as a table. It loads nothing and runs nothing;
 * whatever stands in names and texts is shown, never interpreted.
 */
export function htmlReport(input: ReportInput): string {
  const { title, header, verdicts, warnings = [] } = input;
  const events = chosen(input.events, verdicts);
  const numbered = new Map<number, number>();
  for (const { violations } of verdicts)
    for (const { witness } of violations.slice(0, 1))
      for (const { i } of witness) if (!numbered.has(i)) numbered.set(i, numbered.size + 1);
  const layout = layoutOf(events);
  const left = input.events.length - events.length;
  return [
    "<!doctype html>",
    `<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">`,
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    `<title>${escapeXml(title)}</title><style>${STYLE}</style></head><body>`,
    `<h1>${escapeXml(title)}</h1>`,
    factsOf(header),
    ...warnings.map((warning) => `<p class="warning">${escapeXml(warning)}</p>`),
    ...violationsOf(verdicts, numbered),
    "<h2>Timeline</h2>",
    `<p>Time runs to the right and is not to scale: short gaps are stretched, long ones shortened. Bars say how long a client may believe that it holds. ${left > 0 ? `${left} of ${input.events.length} events are not shown.` : ""}</p>`,
    LEGEND,
    `<div class="scroll">${drawTimeline(layout, numbered)}</div>`,
    "<h2>Verdicts</h2>",
    `<table><thead><tr><th>Property</th><th>Verdict</th><th>Judged</th><th>In words</th></tr></thead><tbody>`,
    ...verdicts.map(rowOf),
    "</tbody></table>",
    "<h2>Events</h2>",
    "<ol>",
    ...events.map((event) => itemOf(event, layout.from, numbered)),
    "</ol></body></html>",
    "",
  ].join("\n");
}

function factsOf(header: HistoryHeader | undefined): string {
  if (header === undefined) return "<p>Recorded by lock managers.</p>";
  const facts = [
    ["Scenario", header.scenario],
    ["Seed", header.seed],
    ["Backend", header.backend],
    ...Object.entries(header.versions).map(([name, version]) => [name, version] as const),
  ] as const;
  const items = facts
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `<dt>${escapeXml(name)}</dt><dd>${escapeXml(value)}</dd>`);
  return items.length === 0 ? "" : `<dl>${items.join("")}</dl>`;
}

/** The first violation of each property, with the numbers that its events have in the timeline. */
function violationsOf(
  verdicts: readonly Verdict[],
  numbered: ReadonlyMap<number, number>,
): readonly string[] {
  const items = verdicts.flatMap(({ property, violations }) =>
    violations.slice(0, 1).map(({ sentence, witness }) => {
      const refs = witness.map(({ i }) => `<span class="ref">${numbered.get(i) ?? ""}</span>`);
      return `<li><b>${property}</b> ${escapeXml(sentence)} ${refs.join(" ")}</li>`;
    }),
  );
  return items.length === 0 ? [] : ["<h2>What is wrong</h2>", "<ul>", ...items, "</ul>"];
}

function rowOf(verdict: Verdict): string {
  const { property, title, violations, violationCount, reasons, notes, judged } = verdict;
  const more = violationCount - violations.length;
  const texts = [
    ...violations.map(({ sentence }) => sentence),
    ...(more > 0 ? [`and ${more} more`] : []),
    ...reasons,
    ...notes,
  ].map((text) => `<p>${escapeXml(text)}</p>`);
  return `<tr class="${stateOf(verdict)}"><th scope="row">${property}<br><small>${escapeXml(title)}</small></th><td>${signOf(verdict)}</td><td>${judged}</td><td>${texts.join("")}</td></tr>`;
}

function stateOf({ verdict, judged }: Verdict): string {
  if (verdict === "unknown") return "undecided";
  if (!verdict) return "violated";
  return judged === 0 ? "empty" : "held";
}

/** A sign and a word: either suffices. */
function signOf(verdict: Verdict): string {
  const signs = {
    held: "✓ held",
    violated: "✗ violated",
    undecided: "? undecided",
    empty: "– nothing to judge",
  } as const;
  return signs[stateOf(verdict) as keyof typeof signs];
}

function itemOf(event: Ev, origin: number, numbered: ReadonlyMap<number, number>): string {
  const number = numbered.get(event.i);
  const mark = number === undefined ? "" : ` <span class="ref">${number}</span>`;
  return `<li value="${event.i}">${escapeXml(describe(event, origin))}${mark}</li>`;
}

/** All events of a short history; of a long one those around the first violation. */
function chosen(events: readonly Ev[], verdicts: readonly Verdict[]): readonly Ev[] {
  if (events.length <= MAX_EVENTS) return events;
  const witness = verdicts
    .flatMap(({ violations }) => violations.slice(0, 1))
    .flatMap((v) => v.witness);
  const [first] = witness;
  if (first === undefined) return events.slice(0, MAX_EVENTS);
  const { lock } = witness.find((event) => event.lock !== undefined) ?? {};
  const near = events.filter(
    (event) => event.lock === lock || event.lock === undefined || witness.includes(event),
  );
  const at = near.findIndex(({ i }) => i >= first.i);
  const from = Math.max(0, at - MAX_EVENTS / 4);
  return near.slice(from, from + MAX_EVENTS);
}

const LEGEND = `<ul class="legend"><li>▭ belief, with its token</li><li>◆ claim</li><li>○ read</li><li>▲ accepted write</li><li>✕ refused write</li><li>■ effect</li><li>] release</li><li>! told that it is lost</li><li>◌ outcome unknown</li><li>▨ paused, ▩ dead</li><li>① event of a violation</li></ul>`;

const STYLE = `
:root{color-scheme:light;--ink:#1a1a1a;--soft:#5b5b5b;--line:#c9c9c9}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:#fff;margin:2rem;max-width:75rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{border-top:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}
th small{font-weight:400;color:var(--soft)}td p{margin:0 0 .3rem}td:nth-child(2){white-space:nowrap}
tr.violated td:nth-child(2){font-weight:700;text-decoration:underline}tr.empty,tr.empty th{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:var(--soft)}dd{margin:0}
.warning{border-left:4px solid var(--ink);padding-left:.6rem}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;color:var(--soft)}
.scroll{overflow-x:auto;border:1px solid var(--line)}
.ref{display:inline-block;min-width:1.2em;border:1px solid var(--ink);border-radius:1em;text-align:center;font-size:.75rem}
ol{font:12px/1.5 ui-monospace,monospace;padding-left:4rem}
svg text{font:10px system-ui,sans-serif;fill:var(--ink);paint-order:stroke;stroke:#fff;stroke-width:3}
svg .name{font-size:12px;font-weight:600}svg .kind,svg .time{fill:var(--soft)}svg .time,svg .label,svg .number{text-anchor:middle}
svg .label{font-size:8.5px}svg .number{font-weight:700}svg .note{font-size:9px;font-style:italic}
.lane,.tick{stroke:var(--line);stroke-width:1}.tick{stroke-dasharray:1 4}
.bar{fill:#dbe9f6;stroke:#1f4e79;stroke-width:1.2}svg .token{font-weight:600;stroke:none}svg .number{stroke:none}
.hatch{stroke:#9a9a9a;stroke-width:1}
.solid{fill:var(--ink);stroke:#fff;stroke-width:.8}.open{fill:#fff;stroke:var(--ink);stroke-width:1.6}
.dashed{fill:none;stroke:var(--ink);stroke-width:1.4;stroke-dasharray:2 2}.bold{fill:none;stroke:var(--ink);stroke-width:2}
.witness{fill:none;stroke:var(--ink);stroke-width:1;stroke-dasharray:5 3}.badge{fill:#fff;stroke:var(--ink);stroke-width:1.4}
@media print{body{margin:0;max-width:none}.scroll{overflow:visible;border:0}.scroll svg{max-width:100%;height:auto}ol{break-before:page}}
`;
