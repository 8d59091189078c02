import { describe, expect, it } from "vitest";
import type { Answer, Ask, Backend, Busy, Driver, Io, Notice } from "../../src/core/driver.ts";
import { memoryDriver } from "../../src/drivers/memory/index.ts";
import { FakeClock, FakeRandom } from "../../src/testing/index.ts";

const io: Io = { timeoutMs: 1000, signal: new AbortController().signal };
const host = { id: "p", name: "h", pid: 1, bootId: null, timeNamespace: null };
const HOUR_MS = 3_600_000;

interface Opened {
  readonly backend: Backend;
  readonly clock: FakeClock;
  readonly notices: Notice[];
}

async function open(
  driver: Driver = memoryDriver(),
  clock: FakeClock = new FakeClock(),
  onNotice: (notice: Notice) => void = () => undefined,
): Promise<Opened> {
  const notices: Notice[] = [];
  const backend = await driver.open({
    clock,
    random: new FakeRandom(),
    host,
    namespace: "n",
    notify(notice) {
      notices.push(notice);
      onNotice(notice);
    },
  });
  return { backend, clock, notices };
}

function ask(name: string, grantId: string, terms: Partial<Ask> = {}): Ask {
  return {
    name,
    mode: "exclusive",
    permits: 1,
    grantId,
    holder: `holder of ${grantId}`,
    ttlMs: 10_000,
    lockDelayMs: 0,
    tokens: 1,
    join: "yes",
    ...terms,
  };
}

async function busy(backend: Backend, what: Ask): Promise<Busy> {
  const answer = await backend.attempt(what, io);
  if (answer.kind !== "busy") throw new Error(`expected busy, got ${answer.kind}`);
  return answer;
}

async function kindOf(answer: Promise<Answer>): Promise<string> {
  return (await answer).kind;
}

describe("memory driver: what waiters are told", () => {
  it("the k-th waiter polls at the holder's end and k offers of at most 3 s later", async () => {
    const { backend, clock } = await open();
    await backend.attempt(ask("x", "holder"), io);
    await clock.advance(4000);
    const polls = [];
    for (let k = 0; k < 5; k += 1) polls.push((await busy(backend, ask("x", `w${k}`))).askAgainMs);
    expect(polls).toEqual([6000, 9000, 12_000, 15_000, 18_000]);
    expect((await busy(backend, ask("x", "w1", { ttlMs: 500, join: "kept" }))).askAgainMs).toBe(
      6500,
    );
  });

  it("the first three waiters must be heard within 3 s, the others within a minute", async () => {
    const { backend } = await open();
    await backend.attempt(ask("x", "holder"), io);
    const keeps = [];
    for (let k = 0; k < 5; k += 1) keeps.push((await busy(backend, ask("x", `w${k}`))).keepEntryMs);
    expect(keeps).toEqual([3000, 3000, 3000, 60_000, 60_000]);
  });

  it("whoever does not queue is told nothing of keeping an entry, and polls behind the queue", async () => {
    const { backend } = await open();
    await backend.attempt(ask("x", "holder"), io);
    await busy(backend, ask("x", "w0"));
    const told = await busy(backend, ask("x", "late", { join: "no" }));
    expect([told.queued, told.keepEntryMs, told.askAgainMs]).toEqual([false, Infinity, 13_000]);
  });

  it("names the waiter with the offer while nobody holds the lock, never the one who asks", async () => {
    const { backend } = await open();
    await backend.attempt(ask("x", "holder"), io);
    await busy(backend, ask("x", "w0"));
    await backend.release([ask("x", "holder")], io);
    const told = await busy(backend, ask("x", "w1"));
    expect([told.blockedBy, told.holder, told.askAgainMs]).toEqual(["queue", "holder of w0", 3000]);
  });

  it("tells a writer who waits for readers when the last of them ends, a permit's waiter the first", async () => {
    const { backend, clock } = await open();
    for (const [name, mode] of [
      ["s", "shared"],
      ["p", "permits"],
    ] as const) {
      await backend.attempt(ask(name, `${name}1`, { mode, permits: 2, ttlMs: 5000 }), io);
      await backend.attempt(ask(name, `${name}2`, { mode, permits: 2, ttlMs: 9000 }), io);
    }
    await clock.advance(1000);
    expect((await busy(backend, ask("s", "w"))).askAgainMs).toBe(8000);
    const waiter = ask("p", "w", { mode: "permits", permits: 2 });
    expect((await busy(backend, waiter)).askAgainMs).toBe(4000);
  });
});

describe("memory driver: offers", () => {
  it("an offer that nobody takes goes to the next waiter and wakes it, and then to the next", async () => {
    const { backend, clock, notices } = await open();
    await backend.attempt(ask("x", "holder"), io);
    for (const id of ["a", "b", "c", "d"]) await busy(backend, ask("x", id));
    await backend.release([ask("x", "holder")], io);
    // "d" stands too far back to be dead by then, and whoever asks is who notices what is over.
    for (let passed = 0; passed < 2; passed += 1) {
      await clock.advance(2999);
      await backend.renew([ask("x", "b"), ask("x", "c")], io);
      await busy(backend, ask("x", "d", { join: "kept" }));
      expect(notices).toHaveLength(1 + passed);
      await clock.advance(1);
      await busy(backend, ask("x", "d", { join: "kept" }));
    }
    expect(notices).toEqual(["a", "b", "c"].map((grantId) => ({ kind: "wake", grantId })));
  });

  it("a waiter that missed its offer stands at its old place when it comes back", async () => {
    const { backend, clock } = await open();
    await backend.attempt(ask("x", "holder"), io);
    await busy(backend, ask("x", "a"));
    await busy(backend, ask("x", "b"));
    await backend.release([ask("x", "holder")], io);
    await backend.renew([ask("x", "b")], io);
    await clock.advance(2999);
    await backend.renew([ask("x", "b")], io);
    await clock.advance(1);
    // The offer is b's now; a waits for it to be taken and is before c.
    await busy(backend, ask("x", "c"));
    await busy(backend, ask("x", "a", { join: "kept" }));
    expect(await kindOf(backend.attempt(ask("x", "b", { join: "kept" }), io))).toBe("granted");
    await backend.release([ask("x", "b")], io);
    await busy(backend, ask("x", "c", { join: "kept" }));
    expect(await kindOf(backend.attempt(ask("x", "a", { join: "kept" }), io))).toBe("granted");
  });

  it("a listener may ask at once when it is woken, and finds the step done", async () => {
    const driver = memoryDriver();
    const clock = new FakeClock();
    const answers: Promise<Answer>[] = [];
    const { backend } = await open(driver, clock, (notice) => {
      if (notice.kind === "wake")
        answers.push(backend.attempt(ask("x", notice.grantId, { join: "kept" }), io));
    });
    await backend.attempt(ask("x", "holder"), io);
    await busy(backend, ask("x", "w"));
    const [released] = await backend.release([ask("x", "holder")], io);
    expect(released).toEqual({ kind: "released" });
    expect(await Promise.all(answers.map(kindOf))).toEqual(["granted"]);
  });

  it("wakes nobody through a connection that was closed, and answers nothing on it", async () => {
    const driver = memoryDriver();
    const clock = new FakeClock();
    const one = await open(driver, clock);
    const two = await open(driver, clock);
    await one.backend.attempt(ask("x", "holder"), io);
    await busy(two.backend, ask("x", "w"));
    await two.backend.close();
    await one.backend.release([ask("x", "holder")], io);
    expect(two.notices).toEqual([]);
    await expect(two.backend.attempt(ask("x", "w"), io)).rejects.toMatchObject({
      kind: "unavailable",
      outcome: "not-applied",
    });
  });
});

describe("memory driver: limits", () => {
  it("queues 10,000 waiters of a name and no more, and forgets dead ones to make room", async () => {
    const { backend, clock } = await open();
    await backend.attempt(ask("x", "holder", { ttlMs: HOUR_MS }), io);
    for (let i = 0; i < 10_000; i += 1) await backend.attempt(ask("x", `w${i}`), io);
    expect(await busy(backend, ask("x", "late"))).toMatchObject({ queued: false });
    // The first three are dead by now, so three places are free.
    await clock.advance(3000);
    for (let i = 0; i < 4; i += 1)
      expect((await busy(backend, ask("x", `later${i}`))).queued).toBe(i < 3);
  });

  it("keeps names that are in use, and drops those whose holders vanished long ago", async () => {
    const { backend, clock } = await open();
    await backend.attempt(ask("kept", "k", { ttlMs: 365 * 24 * HOUR_MS }), io);
    const tokens: bigint[] = [];
    const previous: (bigint | null)[] = [];
    // The names return after longer than a vanished holder is remembered: eight days.
    for (let round = 0; round < 2; round += 1) {
      for (let i = 0; i < 1000; i += 1) {
        const answer = await backend.attempt(ask(`n${i}`, `g${round}-${i}`), io);
        if (answer.kind !== "granted") throw new Error(answer.kind);
        tokens.push(answer.tokens?.first ?? 0n);
        previous.push(answer.previousToken);
      }
      clock.step(-8 * 24 * HOUR_MS);
      await clock.advance(8 * 24 * HOUR_MS);
      for (let i = 0; i < 1000; i += 1) {
        const other = ask(`round ${round} ${i}`, `o${round}-${i}`);
        await backend.attempt(other, io);
        await backend.release([other], io);
      }
    }
    expect(previous.slice(1000)).toEqual(new Array(1000).fill(null));
    for (let i = 0; i < 1000; i += 1) expect(tokens[1000 + i]! > tokens[i]!).toBe(true);
    expect((await backend.list({ prefix: "", limit: 10 }, io)).names).toEqual(["kept"]);
  });

  it("remembers for a week that a name's last holder vanished", async () => {
    const { backend, clock } = await open();
    await backend.attempt(ask("x", "lost"), io);
    await clock.advance(6 * 24 * HOUR_MS);
    for (let i = 0; i < 1000; i += 1) {
      const other = ask(`other ${i}`, `o${i}`);
      await backend.attempt(other, io);
      await backend.release([other], io);
    }
    const answer = await backend.attempt(ask("x", "next"), io);
    expect(answer).toMatchObject({ kind: "granted", takenOver: true });
  });

  it("a late ask is refused for as long as was said, and no longer", async () => {
    const { backend, clock } = await open();
    await backend.release([{ ...ask("x", "late"), refuseLateMs: 60_000 }], io);
    await clock.advance(59_999);
    expect(await kindOf(backend.attempt(ask("x", "late"), io))).toBe("vanished");
    await clock.advance(1);
    expect(await kindOf(backend.attempt(ask("x", "late"), io))).toBe("granted");
  });

  it("two driver objects are two worlds, two backends of one object are not", async () => {
    const driver = memoryDriver();
    const clock = new FakeClock();
    const [one, two] = [await open(driver, clock), await open(driver, clock)];
    const other = await open(memoryDriver(), clock);
    await one.backend.attempt(ask("x", "1"), io);
    expect(await kindOf(two.backend.attempt(ask("x", "2", { join: "no" }), io))).toBe("busy");
    expect(await kindOf(other.backend.attempt(ask("x", "3"), io))).toBe("granted");
  });
});

describe("memory driver: mixed modes", () => {
  it("a semaphore, readers and a writer of one name keep each other out", async () => {
    const { backend } = await open();
    const modes = ["exclusive", "shared", "permits"] as const;
    for (const mode of modes) {
      const held = ask(mode, "held", { mode, permits: mode === "permits" ? 2 : 1 });
      await backend.attempt(held, io);
      for (const other of modes) {
        if (other === mode) continue;
        const terms = { mode: other, permits: 2, join: "no" } as const;
        expect((await busy(backend, ask(mode, `${mode}-${other}`, terms))).blockedBy).toBe("lease");
      }
    }
  });

  it("a vanished reader's lock-delay keeps writers out and lets readers in", async () => {
    const { backend, clock } = await open();
    await backend.attempt(ask("x", "lost", { mode: "shared", lockDelayMs: 5000 }), io);
    await clock.advance(10_000);
    expect(await busy(backend, ask("x", "w", { join: "no" }))).toMatchObject({
      blockedBy: "lock-delay",
      askAgainMs: 5000,
    });
    expect(await kindOf(backend.attempt(ask("x", "r", { mode: "shared" }), io))).toBe("granted");
  });

  it("who holds it is revoked, and a late ask of that grant does not bring it back", async () => {
    const { backend } = await open();
    const held = ask("x", "held");
    await backend.attempt(held, io);
    await backend.revoke({ name: "x", grantId: "held", now: true }, io);
    expect(await kindOf(backend.attempt(held, io))).toBe("vanished");
    expect(await backend.release([held], io)).toEqual([{ kind: "gone", reason: "revoked" }]);
    const next = await backend.attempt(ask("x", "next"), io);
    expect(next).toMatchObject({ kind: "granted", takenOver: true });
  });
});
