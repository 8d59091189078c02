import { describe, expect, it } from "vitest";
import { LinkError } from "../../src/drivers/sql/link-error.ts";
import { Session } from "../../src/drivers/sql/session.ts";
import { Sessions } from "../../src/drivers/sql/sessions.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { rejection } from "../fixtures/world.ts";

/** Sessions of a server that has room for some, and how often one was asked for. */
class Crowded {
  readonly clock: FakeClock = new FakeClock();
  readonly sessions: Sessions<Session>;
  room: number;
  asked = 0;

  constructor(room: number) {
    this.room = room;
    const server = { database: "Server", said: () => false, ends: () => false };
    this.sessions = new Sessions({
      database: "Server",
      clock: this.clock,
      max: 4,
      greet: async () => undefined,
      dial: async () => {
        this.asked += 1;
        if (this.room === 0) throw new LinkError("no room", { sent: false });
        this.room -= 1;
        return new Session({ destroy: () => undefined }, this.clock, server);
      },
    });
  }

  /** One step of a while, that has a minute for it. */
  async step(ms: number, dueMs = 60_000): Promise<Session> {
    return this.sessions.use(this.clock.mono() + dueMs, async (session) => {
      await new Promise<void>((resolve) => {
        this.clock.timer(ms, resolve);
      });
      return session;
    });
  }
}

describe("sessions with a server that has no room for more", () => {
  it("take turns: whoever asks is given one that comes back", async () => {
    const crowded = new Crowded(1);
    const steps = Promise.all(Array.from({ length: 20 }, async () => crowded.step(10)));
    expect(new Set(await crowded.clock.settle(steps)).size).toBe(1);
  });

  it("are asked for again a second later, and not before", async () => {
    const crowded = new Crowded(1);
    const first = crowded.step(3000);
    await crowded.clock.advance(1);
    const second = crowded.step(10);
    await crowded.clock.advance(1);
    const before = crowded.asked;
    crowded.room = 1;
    const third = crowded.step(10);
    await crowded.clock.advance(500);
    expect(crowded.asked).toBe(before);
    await crowded.clock.advance(500);
    const fourth = crowded.step(10);
    await crowded.clock.advance(20);
    expect(crowded.asked).toBe(before + 1);
    const all = await crowded.clock.settle(Promise.all([first, second, third, fourth]));
    expect(new Set(all).size).toBe(2);
  });

  it("leave a step until it is due, and say what the server said", async () => {
    const crowded = new Crowded(1);
    const first = crowded.step(3000);
    await crowded.clock.advance(1);
    const second = rejection(crowded.step(10, 500));
    const error = await crowded.clock.settle(second);
    expect(error).toMatchObject({ sent: false, late: true });
    expect((error as Error).message).toMatch(/no session with Server was to be had.*no room/);
    await crowded.clock.settle(first);
  });

  it("are not waited for where there is none at all", async () => {
    const crowded = new Crowded(0);
    expect(await crowded.clock.settle(rejection(crowded.step(10)))).toMatchObject({
      message: "no room",
      sent: false,
    });
  });
});
