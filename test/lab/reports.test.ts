import { describe, expect, it } from "vitest";
import { CHECKERS, checkAll } from "../../src/lab/checkers/index.ts";
import { toNdjson } from "../../src/lab/ndjson.ts";
import { toEdn } from "../../src/lab/report/edn.ts";
import { htmlReport } from "../../src/lab/report/html.ts";
import { toMermaid } from "../../src/lab/report/mermaid.ts";
import { cleanHistory } from "./clean-history.ts";
import { claimed, claimGap } from "./scenes.ts";

describe("the claim gap", () => {
  it("is a lost update, told in one sentence, with no token out of order", () => {
    const verdicts = checkAll(claimGap());
    const broken = verdicts
      .filter(({ verdict }) => verdict === false)
      .map(({ property }) => property);
    expect(broken).toEqual(["P2", "P4"]);
    expect(CHECKERS.P4.check(claimGap()).violations[0]?.sentence).toBe(
      'B (34) read v7 of "parcel <7>" at 12.3 s; A (33) wrote v8 at 12.4 s, accepted; B wrote v9 based on v7 at 12.6 s, accepted: the update v8 is lost.',
    );
    expect(CHECKERS.P1.check(claimGap()).notes).toEqual([
      "1 of 1 notices of loss came after the deadline; the latest by 3 s, to A (33)",
    ]);
  });

  it("is closed by a claim before the first read", () => {
    expect(CHECKERS.P4.check(claimed()).verdict).toBe(true);
    expect(CHECKERS.P3.check(claimed())).toMatchObject({ verdict: true, judged: 3 });
  });
});

describe("reports", () => {
  it("write NDJSON", () => {
    expect([...toNdjson(claimGap())].slice(0, 4).join("")).toMatchInlineSnapshot(`
      "{"ringfence":"history","version":1,"scenario":"S04","seed":"1","backend":"by hand","config":{},"versions":{},"guarantees":{}}
      {"t":0,"p":"A","lock":"stock","grant":"gA","token":"33","op":1,"k":"invoke","f":"acquire","ttl":10000000000,"i":0,"inc":0}
      {"t":100000000,"p":"A","lock":"stock","grant":"gA","token":"33","op":1,"k":"ok","f":"acquire","ttl":10000000000,"deadline":9500000000,"i":1,"inc":0}
      {"t":200000000,"p":"A","lock":"stock","grant":"gA","token":"33","op":2,"k":"event","f":"read","res":"parcel <7>","ver":7,"i":2,"inc":0}
      "
    `);
  });

  it("write Jepsen's EDN", () => {
    expect([...toEdn(claimGap())].slice(0, 6).join("")).toMatchInlineSnapshot(`
      "{:index 0, :time 0, :process 0, :type :invoke, :f :acquire, :value {:client "A", :op 1, :lock "stock", :grant "gA", :token 33, :ttl 10000000000}}
      {:index 1, :time 100000000, :process 0, :type :ok, :f :acquire, :value {:client "A", :op 1, :lock "stock", :grant "gA", :token 33, :ttl 10000000000, :deadline 9500000000}}
      {:index 2, :time 200000000, :process :nemesis, :type :info, :f :read, :value {:client "A", :op 2, :lock "stock", :grant "gA", :token 33, :res "parcel <7>", :ver 7}}
      {:index 3, :time 300000000, :process :nemesis, :type :info, :f :fault.pause, :value {:client "A", :lock "stock", :grant "gA", :token 33}}
      {:index 4, :time 10200000000, :process :nemesis, :type :info, :f :srv.expire, :value {:client "A", :lock "stock", :grant "gA", :token 33}}
      {:index 5, :time 11000000000, :process 1, :type :invoke, :f :acquire, :value {:client "B", :op 3, :lock "stock", :grant "gB", :token 34, :ttl 10000000000}}
      "
    `);
  });

  it("draw a Mermaid sequence diagram", () => {
    expect(toMermaid(claimGap())).toMatchInlineSnapshot(`
      "sequenceDiagram
        actor C1 as A
        participant L2 as stock
        participant R3 as parcel #60;7#62;
        actor C4 as B
        C1->>L2: 0 ms acquire (33)
        L2-->>C1: 100 ms acquire (33)
        Note over R3: 200 ms read (33) v7
        Note over C1: 300 ms pause
        Note over C1,L2: 10.2 s srv.expire (33)
        C4->>L2: 11 s acquire (34)
        L2-->>C4: 11.1 s acquire (34)
        Note over R3: 12.3 s read (34) v7
        Note over C1: 12.35 s resume
        C1->>R3: 12.36 s write (33) from v7 v8
        Note over R3: 12.4 s write (33) from v7 v8 accepted
        Note over C1: 12.5 s lost#58; expired
        Note over R3: 12.6 s write (34) from v7 v9 accepted
        C4->>L2: 13 s release (34)
        L2-->>C4: 13.1 s release (34)
      "
    `);
  });

  it("end a long Mermaid diagram where nobody would read on", () => {
    const long = toMermaid(Array.from({ length: 9 }, (_, n) => cleanHistory(n + 1).events).flat());
    expect(long.split("\n").length).toBeLessThan(300);
    expect(long).toContain("and more");
  });
});

describe("the HTML report", () => {
  const page = htmlReport({
    title: 'locks "&" <script>alert(1)</script>',
    header: claimGap().header,
    events: [...claimGap()],
    verdicts: checkAll(claimGap()),
    warnings: ["<b>torn</b>"],
  });

  it("escapes every name and text", () => {
    expect(page).not.toContain("<script>");
    expect(page).not.toContain("<b>torn");
    expect(page).not.toContain("parcel <7>");
    expect(page).toContain("parcel &#60;7&#62;");
  });

  it("loads nothing and runs nothing", () => {
    expect(page).toContain(`content="default-src 'none'; style-src 'unsafe-inline'"`);
    expect(page.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(
      /https?:|src=|href=|@import|url\((?!#)/,
    );
    expect(page).not.toMatch(/\son\w+=/);
  });

  it("is well formed, element by element", () => {
    const open: string[] = [];
    const empty = new Set(["meta", "br", "!doctype"]);
    const body = page.replace(/<style>[\s\S]*?<\/style>/, "");
    for (const [, slash, name = "", rest = ""] of body.matchAll(/<(\/?)([!a-zA-Z]\w*)([^>]*)>/g)) {
      if (empty.has(name) || rest.endsWith("/")) continue;
      if (slash === "/") expect(open.pop()).toBe(name);
      else open.push(name);
    }
    expect(open).toEqual([]);
  });

  it("draws beliefs with tokens, accepted and refused writes, faults, numbered witnesses", () => {
    expect(page.match(/class="bar"/g)).toHaveLength(2);
    expect(page).toContain('class="token">33</text>');
    expect(page).toContain("may believe that it holds stock, 100 ms to 9.5 s");
    expect(page).toContain('fill="url(#paused)"');
    expect(page.match(/class="badge"/g)?.length).toBeGreaterThanOrEqual(4);
    const refused = htmlReport({ title: "t", events: [...claimed()], verdicts: [] });
    expect(refused).toContain(">refused v8 A (33)</text>");
    expect(page).not.toMatch(/NaN|undefined/);
  });

  it("shows of a long history what is around the violation, and says so", () => {
    const events = Array.from({ length: 40 }, (_, n) => cleanHistory(n + 1).events).flat();
    const numbered = events.map((event, i) => ({ ...event, i }));
    const long = htmlReport({ title: "t", events: numbered, verdicts: [] });
    expect(long).toMatch(/\d+ of \d+ events are not shown/);
    expect(long.length).toBeLessThan(800_000);
  });
});
