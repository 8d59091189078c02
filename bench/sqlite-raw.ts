// The two statements of an uncontended acquire and release, issued on a connection of their own in the driver's mode.
import { loadClient } from "../src/drivers/sqlite/client.ts";
import { statements } from "../src/drivers/sqlite/sql.ts";

/** A cycle of the raw statements, on a file that the driver has made. */
export async function rawCycle(
  path: string,
): Promise<{ readonly client: string; readonly cycle: () => void; readonly close: () => void }> {
  const { name, open } = await loadClient();
  const db = open(path);
  // What the driver sets on its own connection.
  db.exec("PRAGMA busy_timeout = 20");
  db.exec("PRAGMA synchronous = NORMAL");
  const sql = statements("ringfence_");
  const { boot, clock } = db.prepare(sql.meta.text).get({}) as { boot: string; clock: string };
  const [grant, release] = [db.prepare(sql.grantIdle.text), db.prepare(sql.releaseSole.text)];
  let n = 0;
  return {
    client: name,
    cycle() {
      n += 1;
      const id = `raw-${n}`;
      const now = Number(process.hrtime.bigint()) / 1e6;
      const wall = Date.now();
      const identity = { key: "default:raw", grant: id, now, boot, clock };
      const granted = grant.get({
        ...identity,
        holder: '["","raw",1,{}]',
        ttl: 30_000,
        delay: 0,
        expires: now + 30_000,
        wallEnd: wall + 30_000,
        wall,
        least: BigInt(wall * 1000),
        more: 0n,
      });
      if (granted === undefined) throw new Error("the raw statement was not granted");
      const { changes } = release.run(identity);
      if (Number(changes) !== 1) throw new Error("the raw statement released nothing");
    },
    close: () => db.close(),
  };
}
