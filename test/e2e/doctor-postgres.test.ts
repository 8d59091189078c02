import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { canMoveWallClocks, compileShim, WallClock } from "../../src/lab/chaos/wall-clock.ts";
import { PgBouncer } from "../fixtures/pgbouncer.ts";
import { describePostgres, PostgresServer } from "../fixtures/postgres-server.ts";
import { stopAfter } from "../fixtures/redis-server.ts";
import { buildFirst, place, ringfence } from "./ringfence.ts";

buildFirst();
const { env } = place();

interface Found {
  readonly name: string;
  readonly value: string;
  readonly verdict: string;
  readonly advice?: string;
}

/** What the command finds at a store, by name: `verdict: value`. */
async function doctor(
  url: string,
): Promise<{ code: number | null; found: Record<string, string>; stderr: string }> {
  const { code, stdout, stderr } = await ringfence(["doctor", url, "-o", "json"], { env });
  const { findings } = JSON.parse(stdout === "" ? '{"findings":[]}' : stdout) as {
    readonly findings: readonly Found[];
  };
  const found = Object.fromEntries(
    findings.map(({ name, verdict, value }) => [name, `${verdict}: ${value}`]),
  );
  return { code, found, stderr };
}

const sound = { fsync: "on", full_page_writes: "on" };

describePostgres("ringfence doctor at PostgreSQL", () => {
  it("finds nothing wrong with a sound server, and tells a pooler, a transaction that idles and rows that pile up", async () => {
    const server = stopAfter(await PostgresServer.start({ ...sound, autovacuum: "off" }));
    const first = await doctor(server.url);
    expect([first.code, first.stderr]).toEqual([0, ""]);
    expect(first.found).toMatchObject({
      fsync: "ok: on",
      synchronous_commit: "ok: on",
      standbys: "ok: none seen",
      tables: "ok: there",
      pooler: "ok: none",
    });
    const { clock, ...others } = first.found;
    expect(clock).toMatch(/: \d+ ms (ahead of|behind) this host$/);
    expect(Object.values(others).filter((line) => !line.startsWith("ok:"))).toEqual([]);

    const idle = new Client({ connectionString: server.url });
    await idle.connect();
    onTestFinished(async () => {
      await idle.end();
    });
    const { rows } = await idle.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    await idle.query("BEGIN");
    await idle.query("SELECT pg_advisory_xact_lock(42)");
    await server.query("ALTER SYSTEM SET synchronous_commit = off");
    await server.query("SELECT pg_reload_conf()");
    await server.query(
      "INSERT INTO ringfence_tombs SELECT 'k', g::text, 'released', now() FROM generate_series(1, 100500) AS g",
    );
    await server.query("DELETE FROM ringfence_tombs");
    const bouncer = stopAfter(await PgBouncer.start(server, "transaction"));
    const later = await doctor(bouncer.url);
    expect(later.code).toBe(0);
    expect(later.found["synchronous_commit"]).toMatch(/^ok: off, raised to on/);
    expect(later.found["pooler"]).toMatch(/^warn: yes/);
    expect(later.found["advisory locks"]).toMatch(/^warn: .*idle in a transaction/);
    expect(later.found["advisory locks"]).toContain(`pid ${rows[0]?.pid}`);
    expect(later.found["dead rows"]).toMatch(/^warn: 10\d\d\d\d$/);

    const advisory = await doctor(bouncer.url.replace("postgres:", "postgres+advisory:"));
    expect(advisory.code).toBe(78);
    expect(advisory.stderr).toMatch(/pooler.*postgresDriver.*direct address/s);
  });

  it("refuses a role without rights in a sentence that says what to grant, and tells what it cannot see", async () => {
    const server = stopAfter(await PostgresServer.start(sound));
    await server.query(
      "CREATE ROLE reader LOGIN; CREATE ROLE stranger LOGIN; CREATE SCHEMA locks; REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    );
    const as = (role: string): string =>
      `${server.url.replace("postgres@", `${role}@`)}?schema=locks`;
    const unmade = await doctor(as("stranger"));
    expect([unmade.code, unmade.found]).toEqual([78, {}]);
    expect(unmade.stderr).toMatch(/may not make the tables.*grant CREATE.*schema apply/s);

    await ringfence(["schema", "apply"], {
      env: { ...env, RINGFENCE_STORE: `${server.url}?schema=locks` },
    });
    const shut = await doctor(as("stranger"));
    expect(shut.code).toBe(78);
    expect(shut.stderr).toMatch(
      /may not use the tables.*permission denied.*grant it USAGE on the schema/s,
    );
    await server.query(
      "GRANT USAGE ON SCHEMA locks TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA locks TO reader",
    );
    const owner = new Client({ connectionString: server.url });
    await owner.connect();
    onTestFinished(async () => {
      await owner.end();
    });
    await owner.query("SELECT pg_advisory_lock(42)");
    const reads = await doctor(as("reader"));
    expect(reads.code).toBe(78);
    expect(reads.found["rights"]).toMatch(/^refuse: this role may not use the rows/);
    expect(reads.found["advisory locks"]).toMatch(/^ok: held by 1 .* do not show/);
  });

  it.skipIf(!canMoveWallClocks())("tells a clock that is off", async () => {
    const folder = mkdtempSync(join(tmpdir(), "ringfence-clock-"));
    onTestFinished(() => {
      rmSync(folder, { recursive: true, force: true });
    });
    const clock = new WallClock(compileShim(folder), join(folder, "wall-clock.offset"));
    // The server runs as another user.
    chmodSync(folder, 0o755);
    const server = stopAfter(await PostgresServer.start(sound, clock.env));
    clock.set(60_000);
    expect((await doctor(server.url)).found["clock"]).toMatch(
      /^warn: \d{5} ms ahead of this host$/,
    );
  });
});
