/** What one Redis holds, as the commands of the model see it. Times are Unix milliseconds of the server's wall clock. */
export interface RedisState {
  readonly keys: Map<string, { value: string; expiresAt: number | null; usedAt: number }>;
}

export type RedisReply = string | number | null;

/** What a write did, in the form in which Redis replicates and logs it: absolute times, no conditions. */
export type RedisEffect =
  | {
      readonly kind: "set";
      readonly key: string;
      readonly value: string;
      readonly expiresAt: number | null;
    }
  | { readonly kind: "del"; readonly key: string };

export interface RedisResult {
  readonly reply: RedisReply;
  readonly effects: readonly RedisEffect[];
}

/** Scripts of the model by name, with the text that the real server is given. Each takes keys, then arguments. */
export const SCRIPTS = {
  /** KEYS[1] lock; ARGV[1] value. Returns 1 when it was this value's and is gone. */
  compareAndDelete: /* lua */ `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  /** KEYS[1] lock; ARGV[1] value, ARGV[2] ms. Returns 1 when it is this value's and lives so long again. */
  compareAndExpire: /* lua */ `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
  /**
   * KEYS[1] lock, KEYS[2] counter; ARGV[1] value, ARGV[2] ms. Sets the lock where it is free and returns the counter's next
   * number; returns the number again where the lock is this value's already; 0 where it is another's.
   */
  takeAndCount: /* lua */ `local held = redis.call('GET', KEYS[1])
if held then
  if string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then return tonumber(string.sub(held, #ARGV[1] + 2)) end
  return 0
end
local c = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. c, 'PX', ARGV[2])
return c`,
  /** KEYS[1] lock, KEYS[2] counter; ARGV[1] value, ARGV[2] T, ARGV[3] c or '*'. Raises the counter to T where the lock is (value, c). */
  writeBack: /* lua */ `local held = redis.call('GET', KEYS[1])
if not held then return 0 end
if ARGV[3] == '*' then
  if string.sub(held, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then return 0 end
elseif held ~= ARGV[1] .. ':' .. ARGV[3] then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
return 1`,
  /** KEYS[1] lock; ARGV[1] value. As compareAndDelete, for a lock that takeAndCount set. */
  giveBack: /* lua */ `local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then return redis.call('DEL', KEYS[1]) end
return 0`,
} as const;

type ScriptName = keyof typeof SCRIPTS;

/** The commands that the model knows. */
export type RedisCommand =
  | readonly ["SET", string, string, ...("NX" | "XX" | "PX" | "PXAT" | number)[]]
  | readonly ["GET" | "DEL" | "INCR" | "PTTL" | "EXISTS", string]
  | readonly ["PEXPIRE", string, number]
  | readonly ["FLUSHALL"]
  | readonly ["EVAL", ScriptName, readonly string[], readonly (string | number)[]];

/** Runs one command: what it answers, and what it changed. The state is changed in place. */
export function execute(state: RedisState, now: number, command: RedisCommand): RedisResult {
  const run = new Run(state, now);
  const reply = run.run(command);
  return { reply, effects: run.effects };
}

/** Applies what another server did. */
export function apply(state: RedisState, effect: RedisEffect, now: number): void {
  if (effect.kind === "del") state.keys.delete(effect.key);
  else
    state.keys.set(effect.key, { value: effect.value, expiresAt: effect.expiresAt, usedAt: now });
}

/** Takes out what is over by now; returns what was there. */
export function purge(state: RedisState, now: number): { key: string; value: string }[] {
  const gone: { key: string; value: string }[] = [];
  for (const [key, { value, expiresAt }] of state.keys)
    if (expiresAt !== null && expiresAt <= now) {
      gone.push({ key, value });
      state.keys.delete(key);
    }
  return gone;
}

class Run {
  readonly effects: RedisEffect[] = [];
  readonly #state: RedisState;
  readonly #now: number;

  constructor(state: RedisState, now: number) {
    this.#state = state;
    this.#now = now;
  }

  run(command: RedisCommand): RedisReply {
    switch (command[0]) {
      case "SET":
        return this.#setCommand(command[1], command[2], command.slice(3));
      case "PEXPIRE":
        return this.#expire(command[1], command[2]);
      case "FLUSHALL":
        for (const key of [...this.#state.keys.keys()]) this.#del(key);
        return "OK";
      case "EVAL":
        return this.#script(command[1], command[2], command[3].map(String));
      case "GET":
      case "DEL":
      case "INCR":
      case "PTTL":
      case "EXISTS":
        return this.#simple(command[0], command[1]);
    }
  }

  #simple(name: string, key: string): RedisReply {
    const entry = this.#live(key);
    switch (name) {
      case "GET":
        return entry?.value ?? null;
      case "DEL":
        return this.#del(key);
      case "INCR":
        return this.#incr(key);
      case "EXISTS":
        return entry === undefined ? 0 : 1;
      default: {
        if (entry === undefined) return -2;
        return entry.expiresAt === null ? -1 : entry.expiresAt - this.#now;
      }
    }
  }

  #live(key: string): { value: string; expiresAt: number | null } | undefined {
    const entry = this.#state.keys.get(key);
    if (entry === undefined) return undefined;
    if (entry.expiresAt !== null && entry.expiresAt <= this.#now) {
      this.#del(key);
      return undefined;
    }
    entry.usedAt = this.#now;
    return entry;
  }

  #setCommand(key: string, value: string, options: readonly unknown[]): RedisReply {
    const entry = this.#live(key);
    if (options.includes("NX") && entry !== undefined) return null;
    if (options.includes("XX") && entry === undefined) return null;
    const [px, pxat] = [options.indexOf("PX"), options.indexOf("PXAT")];
    const expiresAt =
      px >= 0 ? this.#now + Number(options[px + 1]) : pxat >= 0 ? Number(options[pxat + 1]) : null;
    this.#put(key, value, expiresAt);
    return "OK";
  }

  #put(key: string, value: string, expiresAt: number | null): void {
    this.#state.keys.set(key, { value, expiresAt, usedAt: this.#now });
    this.effects.push({ kind: "set", key, value, expiresAt });
  }

  #del(key: string): number {
    if (!this.#state.keys.delete(key)) return 0;
    this.effects.push({ kind: "del", key });
    return 1;
  }

  #incr(key: string): number {
    const entry = this.#live(key);
    const next = Number(entry?.value ?? "0") + 1;
    this.#put(key, String(next), entry?.expiresAt ?? null);
    return next;
  }

  #expire(key: string, ms: number): number {
    const entry = this.#live(key);
    if (entry === undefined) return 0;
    this.#put(key, entry.value, this.#now + ms);
    return 1;
  }

  #script(
    name: ScriptName,
    [lock = "", counter = ""]: readonly string[],
    args: readonly string[],
  ): RedisReply {
    const [value = "", second = "", third = ""] = args;
    const held = this.#live(lock)?.value;
    const mine = held?.startsWith(`${value}:`) === true;
    switch (name) {
      case "compareAndDelete":
        return held === value ? this.#del(lock) : 0;
      case "compareAndExpire":
        return held === value ? this.#expire(lock, Number(second)) : 0;
      case "takeAndCount": {
        if (held !== undefined) return mine ? Number(held.slice(value.length + 1)) : 0;
        const c = this.#incr(counter);
        this.#put(lock, `${value}:${c}`, this.#now + Number(second));
        return c;
      }
      case "writeBack": {
        if (third === "*" ? !mine : held !== `${value}:${third}`) return 0;
        if (Number(this.#live(counter)?.value ?? "0") < Number(second))
          this.#put(counter, second, null);
        return 1;
      }
      case "giveBack":
        return mine ? this.#del(lock) : 0;
    }
  }
}
