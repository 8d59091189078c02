/**
 * Every order in which a few clients' token rounds can go over a few servers: the driver's own reducer, and servers that
 * take, end a tenure at any moment, and forget. Nothing is assumed of time: a message may take for ever, which is also how it
 * gets lost, and may arrive twice. What a release or an undo would free, a tenure that ends at any moment frees as well.
 *
 * Left out is what can only make a round come to nothing, since it may come to nothing anyway: answers that say no. And
 * states that differ only in the servers' order are one.
 */
import { newRound, type Round, stepRound } from "../../src/drivers/redlock/rounds.ts";

/** One server: whose tenure it is (0: nobody's), the number of that tenure, and the counter. */
interface Server {
  readonly owner: number;
  readonly counter: number;
  readonly highest: number;
}

/** A write-back on its way. */
interface WriteBack {
  readonly counter: number;
  readonly token: number;
}

interface Client {
  readonly round: Round | null;
  /** Rounds begun: also this round's value, with the client's number. */
  readonly begun: number;
  /** The largest token that was granted when this round began. */
  readonly floor: number;
  /** By server: the take is under way. */
  readonly takes: readonly boolean[];
  /** By server: numbers on their way back. */
  readonly replies: readonly (readonly number[])[];
  readonly writeBacks: readonly (WriteBack | null)[];
}

interface State {
  readonly servers: readonly Server[];
  readonly clients: readonly Client[];
  readonly granted: readonly number[];
  readonly repeats: number;
  readonly forgets: number;
  /** What led here, for people. */
  readonly step: string;
  readonly before: State | null;
}

/** What is explored. */
export interface Scope {
  readonly quorum: number;
  /** The servers' counters at the start. */
  readonly counters: readonly number[];
  readonly clients: number;
  /** Rounds of each client. */
  readonly rounds: number;
  /** How many takes may arrive a second time. */
  readonly repeats: number;
  /** How many times a server may forget everything. */
  readonly forgets: number;
  /** A planted fault: the token is not written back. */
  readonly fault?: "no write-back";
}

/** What the exploration came to. */
export interface Explored {
  readonly states: number;
  readonly grants: number;
  /** The steps to the first two grants with one token, or with tokens against their order. */
  readonly violation: readonly string[] | null;
}

export function explore(scope: Scope): Explored {
  const seen = new Set<string>();
  const stack = [initial(scope)];
  let grants = 0;
  for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
    const key = keyOf(state);
    if (seen.has(key)) continue;
    seen.add(key);
    for (const next of successors(scope, state)) {
      if (next.granted.length > state.granted.length) {
        grants += 1;
        if (isWrong(state, next)) return { states: seen.size, grants, violation: stepsTo(next) };
      }
      stack.push(next);
    }
  }
  return { states: seen.size, grants, violation: null };
}

function initial({ counters, clients }: Scope): State {
  const idle: Client = {
    round: null,
    begun: 0,
    floor: 0,
    takes: counters.map(() => false),
    replies: counters.map(() => []),
    writeBacks: counters.map(() => null),
  };
  return {
    servers: counters.map((highest) => ({ owner: 0, counter: 0, highest })),
    clients: Array.from({ length: clients }, () => idle),
    granted: [],
    repeats: 0,
    forgets: 0,
    step: "",
    before: null,
  };
}

/** The last grant's token was given before, or is not above one that was granted before its round began. */
function isWrong(before: State, after: State): boolean {
  const token = after.granted.at(-1) ?? 0;
  const winner = after.clients.find(
    ({ round }, i) => round?.phase === "granted" && before.clients[i]?.round?.phase !== "granted",
  );
  return before.granted.includes(token) || token <= (winner?.floor ?? 0);
}

function stepsTo(state: State): readonly string[] {
  const steps: string[] = [];
  for (let at: State | null = state; at !== null; at = at.before)
    if (at.step !== "") steps.unshift(at.step);
  return steps;
}

function* successors(scope: Scope, state: State): Generator<State> {
  for (const [i, client] of state.clients.entries()) {
    // It may give up a round at any moment, and begin the next.
    if (client.begun < scope.rounds) yield begin(scope, state, i);
    for (const [s] of state.servers.entries()) {
      if (client.takes[s] === true) yield take(state, i, s, false);
      else if (client.begun > 0 && state.repeats < scope.repeats) yield take(state, i, s, true);
      for (const [k] of (client.replies[s] ?? []).entries()) yield hear(scope, state, i, s, k);
      if (matches(state, i, s)) yield writeBack(state, i, s);
    }
  }
  for (const [s, server] of state.servers.entries()) {
    if (server.owner !== 0)
      yield { ...withServer(state, s, { ...server, owner: 0 }), step: `S${s + 1} frees the name` };
    if (state.forgets < scope.forgets && server.highest > 0)
      yield {
        ...withServer(state, s, { owner: 0, counter: 0, highest: 0 }),
        forgets: state.forgets + 1,
        step: `S${s + 1} forgets`,
      };
  }
}

const nameOf = (i: number): string => String.fromCharCode(65 + i);

function withServer(state: State, s: number, server: Server): State {
  return { ...state, servers: state.servers.with(s, server), before: state };
}

function withClient(state: State, i: number, client: Client): State {
  return { ...state, clients: state.clients.with(i, client), before: state };
}

function valueOf(i: number, { begun }: Client): number {
  return 10 * (i + 1) + begun;
}

function begin(scope: Scope, state: State, i: number): State {
  const before = state.clients[i]!;
  const begun = before.begun + 1;
  const client: Client = {
    round: newRound({
      servers: state.servers.length,
      quorum: scope.quorum,
      value: String(valueOf(i, { ...before, begun })),
      count: 1,
      above: 0n,
      deadline: Infinity,
    }),
    begun,
    floor: Math.max(0, ...state.granted),
    takes: state.servers.map(() => true),
    replies: state.servers.map(() => []),
    writeBacks: state.servers.map(() => null),
  };
  return { ...withClient(state, i, client), step: `${nameOf(i)} begins` };
}

function take(state: State, i: number, s: number, again: boolean): State {
  const client = state.clients[i]!;
  const server = state.servers[s]!;
  const value = valueOf(i, client);
  const free = server.owner === 0;
  const highest = free ? server.highest + 1 : server.highest;
  const after = free ? { owner: value, counter: highest, highest } : server;
  const mine = after.owner === value;
  const waits = mine && client.round?.phase !== "granted";
  const heard = waits
    ? { ...client, replies: client.replies.with(s, [...client.replies[s]!, after.counter]) }
    : client;
  const next = withServer(state, s, after);
  return {
    ...withClient(next, i, again ? heard : { ...heard, takes: client.takes.with(s, false) }),
    before: state,
    repeats: state.repeats + (again ? 1 : 0),
    step: `S${s + 1} ${again ? "hears once more from" : "hears from"} ${nameOf(i)}: ${mine ? `c = ${after.counter}` : "no"}`,
  };
}

function hear(scope: Scope, state: State, i: number, s: number, k: number): State {
  const client = state.clients[i]!;
  const reply = client.replies[s]![k]!;
  const rest = client.replies[s]!.filter((_, at) => at !== k);
  const hold = { value: String(valueOf(i, client)), counter: BigInt(reply) };
  const step = `${nameOf(i)} hears ${reply} from S${s + 1}`;
  const { next, outputs } = stepRound(client.round!, { kind: "took", server: s, hold, at: 0 });
  const writeBacks = [...client.writeBacks];
  let [round, granted] = [next, state.granted];
  for (const output of outputs)
    if (output.kind === "write-back")
      writeBacks[output.server] = {
        counter: Number(output.hold.counter),
        token: Number(output.token),
      };
  if (scope.fault === "no write-back" && next.phase === "writing") {
    round = { ...next, phase: "granted" };
    granted = [...granted, Number(next.token)];
    writeBacks.fill(null);
  }
  const after = { ...client, replies: client.replies.with(s, rest), round, writeBacks };
  return { ...withClient({ ...state, granted }, i, after), before: state, step };
}

function matches(state: State, i: number, s: number): boolean {
  const [client, server] = [state.clients[i]!, state.servers[s]!];
  return server.owner === valueOf(i, client) && server.counter === client.writeBacks[s]?.counter;
}

/** The write-back arrives and its answer with it: a later one would only make the grant later. */
function writeBack(state: State, i: number, s: number): State {
  const [client, server] = [state.clients[i]!, state.servers[s]!];
  const { token } = client.writeBacks[s]!;
  const wrote = { ...server, highest: Math.max(server.highest, token) };
  const input = { kind: "wrote", server: s, matched: true, at: 0 } as const;
  const { next, outputs } = stepRound(client.round!, input);
  const won = outputs.some(({ kind }) => kind === "granted");
  const after: Client = won
    ? {
        ...client,
        round: next,
        replies: client.replies.map(() => []),
        writeBacks: client.writeBacks.map(() => null),
      }
    : { ...client, round: next, writeBacks: client.writeBacks.with(s, null) };
  const granted = won ? [...state.granted, token] : state.granted;
  return {
    ...withClient(withServer({ ...state, granted }, s, wrote), i, after),
    before: state,
    step: `S${s + 1} writes ${nameOf(i)}'s ${token}${won ? `: ${nameOf(i)} is granted ${token}` : ""}`,
  };
}

function keyOf({ servers, clients, granted, repeats, forgets }: State): string {
  let key = `${granted.join()}/${repeats}${forgets}`;
  for (const { round, begun, floor } of clients)
    key += `#${begun}.${floor}.${round?.phase[0] ?? ""}${round?.token ?? ""}`;
  const columns = servers.map(({ owner, counter, highest }, s) => {
    let column = owner === 0 ? `0.${highest}` : `${owner}.${counter}.${highest}`;
    for (const { round, takes, replies, writeBacks } of clients) {
      const [vote, sent] = [round?.votes[s], writeBacks[s]];
      column += `;${takes[s] === true ? 1 : 0}${replies[s]!.join("+")}`;
      if (sent != null) column += `w${sent.counter}`;
      // A granted round hears nothing any more.
      if (round?.phase !== "granted" && vote !== undefined && "hold" in vote)
        column += `${vote.kind[0]}${vote.hold.counter}${vote.counts ? "" : "-"}`;
    }
    return column;
  });
  return `${key}|${columns.sort().join("|")}`;
}
