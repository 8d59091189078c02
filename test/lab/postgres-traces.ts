import { tablesOf } from "../../src/drivers/postgres/options.ts";
import { statements } from "../../src/drivers/postgres/sql.ts";
import type { Statements } from "../../src/drivers/postgres/sql-parts.ts";
import type { Call, Statement } from "../../src/drivers/sql/statement.ts";
import { FakeRandom } from "../../src/testing/fake-random.ts";
import type { Started, Twin, TwinSession } from "../fixtures/postgres-twin.ts";

/** The driver's statements. */
export const SQL: Statements = statements(tablesOf({}));
/** Statements that a driver need not have. */
const MORE: Readonly<Record<string, unknown>> = { ...SQL };
const ROLLBACK: Statement = { name: "rollback", text: "ROLLBACK" };
const KEYS = ["default:k1", "default:k2"] as const;
const GRANTS = ["g1", "g2", "g3", "g'4 é"] as const;
export const CHANNEL = "told";

/** Draws messages such as the driver sends, and others that it would not. */
class Draw {
  readonly random: FakeRandom;

  constructor(seed: number) {
    this.random = new FakeRandom(seed);
  }

  one<T>(options: readonly T[]): T {
    return options[Math.floor(this.random.unit() * options.length)]!;
  }

  /** A statement by itself. */
  alone(): Call {
    const key = this.one(KEYS);
    const grant = this.one(GRANTS);
    const ttl = this.one(["300", "1000", "10000"]);
    const delay = this.one(["0", "0", "500"]);
    const list = (): string =>
      JSON.stringify(
        Array.from({ length: this.one([1, 2, 3]) }, () => [
          this.one(KEYS),
          this.one(GRANTS),
          ttl,
          delay,
        ]).filter(([name, id], i, all) => all.findIndex((e) => e[0] === name && e[1] === id) === i),
      );
    return this.one<() => Call>([
      () => ({ statement: SQL.grantIdle, args: [key, grant, `of ${grant}`, ttl, delay] }),
      () => ({ statement: SQL.grantIdle, args: [key, grant, `of ${grant}`, ttl, delay] }),
      () => ({ statement: SQL.releaseSole, args: [key, grant] }),
      () => ({ statement: SQL.releaseSoles, args: [list()] }),
      () => ({ statement: SQL.renewSole, args: [list()] }),
      () => ({ statement: SQL.renewSole, args: [list()] }),
      () => ({ statement: SQL.renewShares, args: [list()] }),
      () => ({ statement: SQL.renewWaiters, args: [list()] }),
      () => ({ statement: SQL.refresh, args: [key, grant, "3000", "60000"] }),
      () => ({ statement: SQL.whyGone, args: [list()] }),
      () => ({ statement: SQL.inspect, args: [key] }),
      () => ({ statement: SQL.list, args: ["default:", "default:{", "", "5"] }),
      () => ({ statement: SQL.idle, args: ["1024"] }),
    ])();
  }

  /** What a transaction on one name begins with. */
  opening(key: string): Call[] {
    const make = this.random.unit() < 0.8 ? [{ statement: SQL.makeRow, args: [key] }] : [];
    return [
      // Nobody waits in vain here: how long is a matter of the server's own clock.
      { statement: SQL.begin, args: ["0"] },
      ...make,
      { statement: SQL.lockRow, args: [key] },
      { statement: SQL.look, args: [key, this.one(GRANTS)] },
    ];
  }

  /** Something that a transaction writes about its name. */
  write(key: string): Call {
    const { handOver, takeOffer } = MORE as Readonly<Record<string, Statement | undefined>>;
    if (handOver !== undefined && takeOffer !== undefined && this.random.unit() < 0.2) {
      const grant = this.one(GRANTS);
      if (this.random.unit() < 0.5) return { statement: handOver, args: [key, grant, "3000"] };
      return { statement: takeOffer, args: [key, grant, `of ${grant}`, "1000", "0", "2"] };
    }
    return this.usual(key);
  }

  private usual(key: string): Call {
    const grant = this.one(GRANTS);
    const ttl = this.one(["300", "1000", "10000"]);
    const delay = this.one(["0", "500"]);
    const seq = this.one(["1", "2", "3", "4"]);
    const state = this.one(["0", "1", "2"]);
    const abandoned = this.one(["true", "false"]);
    const waiter = [key, grant, CHANNEL, "exclusive", "1", `of ${grant}`, ttl, "3000"];
    const hold = this.random.unit() < 0.5 ? [grant, `of ${grant}`] : [null, null];
    const raised = this.one(["0", "0", "70"]);
    const above = this.one(["0", "0", "40"]);
    const lease = this.one(["", ttl]);
    return this.one<() => Call>([
      () => ({
        statement: SQL.putLock,
        args: [key, state, "2", ...hold, ttl, delay, lease, raised, abandoned],
      }),
      () => ({
        statement: SQL.putGrant,
        args: [key, grant, `of ${grant}`, ttl, delay, "3", above, state, abandoned],
      }),
      () => ({
        statement: SQL.putShare,
        args: [key, grant, this.one(["shared", "permits"]), "h", ttl, delay, above, abandoned],
      }),
      () => ({ statement: SQL.renewShare, args: [key, grant, ttl, delay] }),
      () => ({ statement: SQL.cutShare, args: [key, grant] }),
      () => ({ statement: SQL.dropShare, args: [key, grant] }),
      () => ({ statement: SQL.dropSpent, args: [key] }),
      () => ({ statement: SQL.join, args: waiter }),
      () => ({ statement: SQL.join, args: waiter }),
      () => ({ statement: SQL.heard, args: [key, grant, "3000"] }),
      () => ({ statement: SQL.leave, args: [key, grant] }),
      () => ({ statement: SQL.miss, args: [key, seq] }),
      () => ({ statement: SQL.withdraw, args: [key] }),
      () => ({ statement: SQL.offer, args: [key, seq, "1000"] }),
      () => ({
        statement: SQL.bury,
        args: [key, grant, this.one(["released", "revoked", "exchanged"]), "2000"],
      }),
      () => ({ statement: SQL.wake, args: [CHANNEL, grant] }),
      () => ({ statement: SQL.forgetDead, args: [key] }),
    ])();
  }

  /** Several of them, and mostly the end of the transaction. */
  closing(key: string): Call[] {
    const writes = Array.from({ length: this.one([1, 2, 3]) }, () => this.write(key));
    const roll = this.random.unit();
    if (roll < 0.15) return [...writes, { statement: ROLLBACK, args: [] }];
    return roll < 0.9 ? [...writes, { statement: SQL.commit, args: [] }] : writes;
  }

  sweep(): Call {
    if (this.random.unit() < 0.5) return { statement: SQL.sweepAside, args: [] };
    return { statement: SQL.sweepLocks, args: [JSON.stringify(KEYS)] };
  }
}

/** What of a message was failed by the server leaves its block to be ended. */
async function endBlock(session: TwinSession): Promise<void> {
  await (await session.start([{ statement: ROLLBACK, args: [] }], false)).end();
}

/**
 * Two sessions: one has a transaction open on a name, and the other comes in between with whatever it likes; time passes
 * while it waits.
 */
export async function interleave(twin: Twin, seed: number, rounds: number): Promise<void> {
  const draw = new Draw(seed);
  const [a, b] = [await twin.dialBoth(), await twin.dialBoth()];
  try {
    await meet(a, b);
    for (let n = 0; n < rounds; n += 1) {
      const key = draw.one(KEYS);
      await (await a.start(draw.opening(key), false)).end();
      if (draw.random.unit() < 0.3) await (await a.start([draw.write(key)], false)).end();
      const other = await inBetween(draw, b);
      if (draw.random.unit() < 0.6) await twin.pass(draw.one([1, 100, 350, 1100]));
      const closing = draw.closing(key);
      await (await a.start(closing, false)).end();
      // Harmless where it has ended.
      await endBlock(a);
      await other.end();
      if (other.block !== null) {
        await (await b.start(draw.closing(other.block), false)).end();
        await endBlock(b);
      }
      if (draw.random.unit() < 0.3) await twin.pass(draw.one([1, 350, 3100, 70_000, 90_000_000]));
      if (draw.random.unit() < 0.3) await (await b.start([draw.sweep()], false)).end();
      await twin.compareTables();
    }
  } finally {
    a.destroy();
    b.destroy();
  }
}

/** A name changes hands while somebody waits to give it back, and while another waits to renew it. */
async function meet(a: TwinSession, b: TwinSession): Promise<void> {
  const [key] = KEYS;
  const lease = ["10000", "0"];
  const waiting: readonly Call[] = [
    { statement: SQL.releaseSole, args: [key, "g1"] },
    { statement: SQL.renewSole, args: [JSON.stringify([[key, "g1", ...lease]])] },
  ];
  for (const call of waiting) {
    const grant = { statement: SQL.grantIdle, args: [key, "g1", "of g1", ...lease] };
    await (await b.start([grant], true)).end();
    const opening = [
      { statement: SQL.begin, args: ["0"] },
      { statement: SQL.lockRow, args: [key] },
    ];
    await (await a.start(opening, false)).end();
    const other = await b.start([call], true);
    const args = [key, "g2", "of g2", ...lease, "1", "0", "1", "false"];
    const closing = [
      { statement: SQL.putGrant, args },
      { statement: SQL.commit, args: [] },
    ];
    await (await a.start(closing, false)).end();
    await other.end();
    await (await a.start([{ statement: SQL.releaseSole, args: [key, "g2"] }], true)).end();
  }
}

async function inBetween(
  draw: Draw,
  session: TwinSession,
): Promise<Started & { readonly block: string | null }> {
  const roll = draw.random.unit();
  if (roll < 0.1) return { ...(await session.start([draw.sweep()], false)), block: null };
  if (roll < 0.6) return { ...(await session.start([draw.alone()], true)), block: null };
  const block = draw.one(KEYS);
  return { ...(await session.start(draw.opening(block), false)), block };
}
