import type { Statement } from "../redis/scripts.ts";

/**
 * What all scripts share. A name has one hash `l` on each server: g = `id|value|c|end|lock-delay|ttl|first token or ''|
 * how many|token before|took over|since|holder`, the tenure of a grant id under one round's value, with the number c that
 * it was minted; ctr = the highest number that was ever minted or written back here; p and k = the last token of the last
 * grant that ended, and whether it was never released; x = when this key ends. Grant ids, and values of rounds, that must not
 * be taken any more have a key each, which ends by itself: `1` was revoked, `0` was given back.
 *
 * Times are milliseconds of the server's clock. Numbers are decimal strings, compared by length and then by digits.
 */
const HEAD = /* lua */ `
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local L = KEYS[1]
local v = redis.call('HMGET', L, 'g', 'ctr', 'p', 'k', 'x')
local function text(n) return string.format('%.0f', n) end
local held, live, free = nil, false, true
if v[1] then
  local id, value, c, e, d, y, f, n, b, k, s, who = string.match(v[1],
    '^([^|]*)|([^|]*)|(%d+)|(%d+)|(%d+)|(%d+)|(%d*)|(%d+)|(%d*)|(%d)|(%d+)|(.*)$')
  held = { id = id, value = value, c = c, ends = tonumber(e), delay = tonumber(d), ttl = tonumber(y), first = f,
    count = n, before = b, over = k, since = s, who = who }
  live, free = held.ends > now, held.ends + held.delay <= now
end
local function put(h)
  redis.call('HSET', L, 'g', table.concat({ h.id, h.value, h.c, text(h.ends), text(h.delay), text(h.ttl), h.first,
    h.count, h.before, h.over, h.since, h.who }, '|'))
end
local function more(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end
local function plus(s, n)
  if #s < 16 then return text(tonumber(s) + n) end
  local low, high = tonumber(string.sub(s, -15)) + n, string.sub(s, 1, -16)
  if low >= 1e15 then low = low - 1e15; high = text(tonumber(high) + 1) end
  return high .. string.format('%015.0f', low)
end
local function top(h) return plus(h.first, tonumber(h.count) - 1) end
local function raise(to)
  if #to > 19 or (v[2] and not more(to, v[2])) then return end
  v[2] = to
  redis.call('HSET', L, 'ctr', to)
end
-- The number of a new tenure, above all that were minted or written back here; nothing when they are used up.
local function mint()
  local c = text(us)
  if v[2] and not more(c, v[2]) then c = plus(v[2], 1) end
  if more(c, '4611686018427387903') then return nil end
  raise(c)
  return c
end
-- Who held the name last, for as long as the counter is kept.
local function past(token, over) redis.call('HSET', L, 'p', token, 'k', over) end
-- The counter outlives every lease that could still be believed in: 7 days, and twice the longest ttl.
local function lasting(ms)
  local till = now + math.max(604800000, 2 * ms)
  if tonumber(v[5] or '0') >= till then return end
  redis.call('HSET', L, 'x', text(till + 3600000))
  redis.call('PEXPIREAT', L, text(till + 3600000))
end
-- Why this grant id has no lease: 0 expired, 1 taken, 2 revoked.
local function why(id, buried)
  if redis.call('GET', buried) == '1' then return 2 end
  return live and held.id ~= id and 1 or 0
end
`;

/**
 * Takes the lock under a round's value, or finds that this grant id has it already; with a lease to exchange, takes it
 * over from that one.
 *
 * KEYS: l, buried grant id, buried value, buried grant id of the lease to exchange
 * ARGV: grant id, value, ttl, lock-delay, holder, grant id of the lease to exchange or ''
 * Returns {1, value, c, token before or '', took over}, {0, lease | lock-delay, holder, wait in ms} in the way,
 *   {2} must not be taken, {3, 0 expired | 1 taken | 2 revoked} nothing to exchange, {4} numbers used up
 */
export const TAKE: Statement = {
  name: "take",
  text: /* lua */ `${HEAD}
local g, value, ttl, delay, from = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[6]
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return {2} end
if live and held.id == g then
  held.ends, held.delay, held.ttl = math.max(held.ends, now + ttl), delay, ttl
  put(held)
  lasting(ttl + delay)
  return {1, held.value, held.c, held.before, tonumber(held.over)}
end
local before, over = v[3] or '', v[4] or '0'
if from ~= '' then
  if not (live and held.id == from) then return {3, why(from, KEYS[4])} end
  if held.first ~= '' then before, over = top(held), '0' end
elseif not free then return {0, live and 'lease' or 'lock-delay', held.who, held.ends + held.delay - now}
elseif held and held.first ~= '' then before, over = top(held), '1' end
local c = mint()
if not c then return {4} end
if before ~= '' then past(before, over) end
put({ id = g, value = value, c = c, ends = now + ttl, delay = delay, ttl = ttl, first = '', count = '1',
  before = before, over = over, since = text(now), who = ARGV[5] })
if from ~= '' then redis.call('SET', KEYS[4], '0', 'PX', text(math.max(ttl, 60000))) end
lasting(ttl + delay)
return {1, value, c, before, tonumber(over)}
`,
};

/**
 * Writes the token of a round back, where the tenure is still the same.
 *
 * KEYS: l
 * ARGV: grant id, value, c, first token, how many
 * Returns 1 it is, 0 it is not
 */
export const WRITE_BACK: Statement = {
  name: "write-back",
  text: /* lua */ `${HEAD}
if not live or held.id ~= ARGV[1] or held.value ~= ARGV[2] or held.c ~= ARGV[3] then return 0 end
held.first, held.count = ARGV[4], ARGV[5]
put(held)
raise(top(held))
return 1
`,
};

/**
 * Ends the tenure of a round that came to nothing.
 *
 * KEYS: l, buried value
 * ARGV: grant id, value, refuse this value for so many ms ('0': it cannot come late)
 * Returns 1 it was there, 0 it was not
 */
export const UNDO: Statement = {
  name: "undo",
  text: /* lua */ `${HEAD}
if ARGV[3] ~= '0' then redis.call('SET', KEYS[2], '0', 'PX', ARGV[3]) end
if not held or held.id ~= ARGV[1] or held.value ~= ARGV[2] then return 0 end
redis.call('HDEL', L, 'g')
return 1
`,
};

/**
 * Lets a lease run again, and says which tenure it is.
 *
 * KEYS: l, buried grant id
 * ARGV: grant id, ttl, lock-delay
 * Returns {1, value, c}, {0, 0 expired | 1 taken | 2 revoked, 1 nobody is there | 0 somebody is}
 */
export const EXTEND: Statement = {
  name: "extend",
  text: /* lua */ `${HEAD}
local g, ttl, delay = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if not live or held.id ~= g then
  local reason = why(g, KEYS[2])
  return {0, reason, free and redis.call('EXISTS', KEYS[2]) == 0 and 1 or 0}
end
held.ends, held.delay, held.ttl = math.max(held.ends, now + ttl), delay, ttl
put(held)
lasting(ttl + delay)
return {1, held.value, held.c}
`,
};

/**
 * Sets a lease again where it is absent, while a quorum has it: a new tenure, above the lease's tokens.
 *
 * KEYS: l, buried grant id, buried value
 * ARGV: grant id, value, ttl, lock-delay, holder, first token, how many, token before or '', took over
 * Returns {1, value, c}, {0} somebody is there
 */
export const RESTORE: Statement = {
  name: "restore",
  text: /* lua */ `${HEAD}
local g, ttl, delay = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
if not free or redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return {0} end
local h = { id = g, value = ARGV[2], ends = now + ttl, delay = delay, ttl = ttl, first = ARGV[6], count = ARGV[7],
  before = ARGV[8], over = ARGV[9], since = text(now), who = ARGV[5] }
raise(top(h))
h.c = mint()
if not h.c then return {0} end
put(h)
lasting(ttl + delay)
return {1, h.value, h.c}
`,
};

/**
 * Gives a lease back, whatever its value. Only while it is one: in its lock-delay it stays.
 *
 * KEYS: l, buried grant id
 * ARGV: grant id, refuse this id for so many ms ('0': none can come), raise the counter to ('' or a token)
 * Returns {1} released, {0, 0 expired | 1 taken | 2 revoked}
 */
export const RELEASE: Statement = {
  name: "release",
  text: /* lua */ `${HEAD}
local g, late = ARGV[1], tonumber(ARGV[2])
local mine, reason = live and held.id == g, why(g, KEYS[2])
if mine then
  redis.call('HDEL', L, 'g')
  if held.first ~= '' then past(top(held), '0') end
  if ARGV[3] ~= '' then raise(ARGV[3]) end
end
if late > 0 then
  local kind = redis.call('GET', KEYS[2]) or '0'
  redis.call('SET', KEYS[2], kind, 'PX', text(math.max(late, redis.call('PTTL', KEYS[2]))))
end
if mine then return {1} end
return {0, reason}
`,
};

/**
 * Ends one grant, whoever has it: at once, or after its lock-delay.
 *
 * KEYS: l, buried grant id
 * ARGV: grant id, now (1 or 0)
 * Returns {1} revoked, {0, 0 expired | 1 taken | 2 revoked}
 */
export const REVOKE: Statement = {
  name: "revoke",
  text: /* lua */ `${HEAD}
local g = ARGV[1]
if not live or held.id ~= g then return {0, why(g, KEYS[2])} end
if ARGV[2] == '1' or held.delay == 0 then
  redis.call('HDEL', L, 'g')
  if held.first ~= '' then past(top(held), '1') end
else
  held.ends = now
  put(held)
end
redis.call('SET', KEYS[2], '1', 'PX', text(math.max(held.ttl, 60000)))
return {1}
`,
};

/**
 * Who has the name on this server, for people. Reads only.
 *
 * KEYS: l
 * Returns {1, grant id, holder, first token or '', last token or '', remaining ms, since, lock-delay},
 *   {2, ms of quiet} in a lock-delay, {0} nobody
 */
export const INSPECT: Statement = {
  name: "inspect",
  text: /* lua */ `${HEAD}
if free then return {0} end
if not live then return {2, held.ends + held.delay - now} end
return {1, held.id, held.who, held.first, held.first == '' and '' or top(held), held.ends - now, tonumber(held.since),
  held.delay}
`,
};
