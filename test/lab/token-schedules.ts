/**
 * Random schedules of token rounds: the driver's reducer, and its scripts as the simulator has them. Nothing is assumed of
 * time: any message may be late for ever, lost or doubled, a tenure may end at any moment, a client may give up at any
 * moment, and servers may forget.
 */
import type { Call } from "../../src/drivers/redis/connection.ts";
import { takeReply } from "../../src/drivers/redlock/replies.ts";
import {
  newRound,
  type Round,
  type RoundInput,
  type RoundOutput,
  stepRound,
} from "../../src/drivers/redlock/rounds.ts";
import { RELEASE, TAKE, UNDO, WRITE_BACK } from "../../src/drivers/redlock/scripts.ts";
import {
  emptyRedlockState,
  type RedlockState,
  runScript,
} from "../../src/lab/servers/redlock-state.ts";

export interface Plan {
  readonly servers: number;
  readonly quorum: number;
  readonly clients: number;
  /** How many times a server may forget everything. */
  readonly forgets: number;
  /** A planted fault: the largest number is the token, and is not written back. */
  readonly naive?: boolean;
}

interface Client {
  readonly id: number;
  state: "idle" | "asking" | "holding";
  round: Round | null;
  grantId: string;
  begunAt: number;
  left: number;
}

interface Grant {
  readonly token: bigint;
  readonly begunAt: number;
  readonly grantedAt: number;
}

const STEPS = 900;
const LOCK = "{n}:l";

/** One schedule. `duplicates`: grants that share a token; `inversions`: tokens against the order in real time. */
export function runSchedule(
  seed: number,
  plan: Plan,
): { readonly grants: number; readonly duplicates: number; readonly inversions: number } {
  const schedule = new Schedule(seed, plan);
  for (let step = 0; step < STEPS; step += 1) schedule.step();
  const { grants } = schedule;
  let [duplicates, inversions] = [0, 0];
  for (const [i, a] of grants.entries())
    for (const b of grants.slice(i + 1)) {
      if (a.token === b.token) duplicates += 1;
      if (a.grantedAt < b.begunAt && a.token >= b.token) inversions += 1;
      if (b.grantedAt < a.begunAt && b.token >= a.token) inversions += 1;
    }
  return { grants: grants.length, duplicates, inversions };
}

class Schedule {
  readonly grants: Grant[] = [];
  readonly #plan: Plan;
  readonly #servers: RedlockState[];
  readonly #clients: Client[];
  /** Messages on their way; each does what its arrival does. */
  readonly #inbox: (() => void)[] = [];
  #random: number;
  #now = 0;
  #forgets: number;
  #rounds = 0;

  constructor(seed: number, plan: Plan) {
    this.#random = Math.imul(seed, 2_654_435_761) >>> 0;
    this.#plan = plan;
    this.#forgets = plan.forgets;
    this.#servers = Array.from({ length: plan.servers }, emptyRedlockState);
    this.#clients = Array.from({ length: plan.clients }, (_, id) => ({
      id,
      state: "idle",
      round: null,
      grantId: "",
      begunAt: 0,
      left: 4,
    }));
  }

  step(): void {
    this.#now += 1;
    const chance = this.#unit();
    if (chance < 0.1) this.#act(this.#pick(this.#clients));
    else if (chance < 0.16) {
      const name = this.#pick(this.#servers).names.get(LOCK);
      if (name !== undefined) name.held = null;
    } else if (chance < 0.162 && this.#forgets > 0) {
      this.#forgets -= 1;
      this.#servers[Math.floor(this.#unit() * this.#servers.length)] = emptyRedlockState();
    } else if (chance < 0.17) {
      for (const client of this.#clients)
        if (client.state === "asking" && this.#unit() < 0.2) this.#giveUp(client);
    } else if (this.#inbox.length > 0) this.#deliver();
  }

  #deliver(): void {
    const at = Math.floor(this.#unit() * this.#inbox.length);
    const message = this.#inbox[at]!;
    // Now and then a message arrives and is also still on its way.
    if (this.#unit() >= 0.02) {
      this.#inbox[at] = this.#inbox.at(-1)!;
      this.#inbox.pop();
    }
    if (this.#unit() >= 0.03) message();
  }

  #act(client: Client): void {
    if (client.state === "idle" && client.left > 0) this.#begin(client);
    else if (client.state === "holding" && this.#unit() < 0.5) {
      for (const server of this.#servers.keys()) this.#release(client, server);
      client.state = "idle";
    }
  }

  #begin(client: Client): void {
    const { servers, quorum } = this.#plan;
    this.#rounds += 1;
    client.left -= 1;
    client.state = "asking";
    client.begunAt = this.#now;
    // A waiter asks again under the id that it has; one that held the lock comes under another.
    if (client.round?.phase !== "failed" || this.#unit() < 0.5) client.grantId = `g${this.#rounds}`;
    const value = String(this.#rounds);
    const terms = { servers, quorum, value, count: 1, above: 0n, deadline: Infinity };
    client.round = newRound(terms);
    const [{ grantId }, round] = [client, this.#rounds];
    const buried = (what: string): string => `{n}:t:${what}`;
    for (const server of this.#servers.keys())
      this.#call(
        server,
        {
          statement: TAKE,
          keys: [LOCK, buried(grantId), buried(`${grantId}:${value}`), buried("")],
          args: [grantId, value, "1000000", "0", "", ""],
        },
        (answer) => {
          const reply = takeReply(answer);
          const at = this.#now;
          this.#hear(
            client,
            round,
            reply.kind === "took"
              ? { kind: "took", server, hold: reply.hold, at }
              : { kind: "refused", server, at },
          );
        },
      );
  }

  #hear(client: Client, round: number, input: RoundInput): void {
    const { round: current } = client;
    if (current?.terms.value !== String(round)) return;
    const { next, outputs } = stepRound(current, input);
    client.round = next;
    for (const output of outputs) this.#do(client, round, output);
  }

  #do(client: Client, round: number, output: RoundOutput): void {
    const { grantId } = client;
    switch (output.kind) {
      case "write-back": {
        if (this.#plan.naive === true) {
          this.#granted(client, output.token);
          return;
        }
        const { server, hold, token } = output;
        this.#call(
          server,
          {
            statement: WRITE_BACK,
            keys: [LOCK],
            args: [grantId, hold.value, String(hold.counter), String(token), "1"],
          },
          (answer) => {
            const input = { kind: "wrote", server, matched: answer === 1, at: this.#now } as const;
            this.#hear(client, round, input);
          },
        );
        return;
      }
      case "undo":
        this.#call(output.server, {
          statement: UNDO,
          keys: [LOCK, `{n}:t:${grantId}:${output.value}`],
          args: [grantId, output.value, output.stray ? "60000" : "0"],
        });
        return;
      case "granted":
        this.#granted(client, output.token);
        return;
      case "failed":
        if (client.state === "asking") client.state = "idle";
    }
  }

  #granted(client: Client, token: bigint): void {
    if (client.state !== "asking") return;
    client.state = "holding";
    this.grants.push({ token, begunAt: client.begunAt, grantedAt: this.#now });
  }

  #giveUp(client: Client): void {
    const { round } = client;
    if (round === null) return;
    for (const [server, vote] of round.votes.entries())
      if (vote.kind === "asked" || vote.kind === "writing")
        this.#hear(client, Number(round.terms.value), {
          kind: "silent",
          server,
          stray: true,
          at: this.#now,
        });
  }

  #release({ grantId }: Client, server: number): void {
    this.#call(server, {
      statement: RELEASE,
      keys: [LOCK, `{n}:t:${grantId}`],
      args: [grantId, "0", ""],
    });
  }

  #call(server: number, call: Call, hear?: (answer: unknown) => void): void {
    this.#inbox.push(() => {
      const answer = runScript(this.#servers[server]!, 1000n, call);
      if (hear !== undefined)
        this.#inbox.push(() => {
          hear(answer);
        });
    });
  }

  #unit(): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#random / 4_294_967_296;
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#unit() * from.length)]!;
  }
}
