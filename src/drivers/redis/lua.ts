/**
 * The Lua that the scripts share. What a name consists of, all under one hash tag:
 *
 * - `l`, hash, the lock. Its field s is all that an uncontended lease needs, in one text, since each field that a script
 *   reads or writes costs as much as the rest of its work: `more|last|kept|lease`. more = 1 if there is more to look at:
 *   `up`, `ab`, `q`, `c` or `r`; last = the highest token minted; kept = a week before this key ends; lease = nothing, or
 *   `from|first token|how many|took over|token before|since|id|lock-delay|ttl|holder`, the exclusive lease, which ends a
 *   ttl after `from`. Fields of their own: up = what token repair demanded; ab = the last exclusive holder never released;
 *   m = what the occupants are; p = permits; a = arrivals; sw = when to sweep `r`
 * - `q`, sorted set, live waiters by arrival
 * - `c`, sorted set, what takes room beside an exclusive lease: shared leases and permits, and offers; scored by their end
 * - `r`, hash, one record per grant id. `w|alive until|arrival|mode|ttl|offer until|channel|holder` waits, or died
 *   waiting and may come back to its place; `h|end|lock-delay|ttl|mode|token|took over|token before|since|holder` is a
 *   shared lease or a permit; `t|until|revoked` must not be granted any more
 *
 * Times are milliseconds of the server's clock. Whole numbers become text by `%.0f`, never by `tostring`, which cuts
 * microseconds to 14 digits; tokens are decimal strings, compared by length and then by digits.
 */

/** Reads the clock and the lock. Everything after it sees one moment. */
export const HEAD = /* lua */ `
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local L, Q, C, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local more, last, kept, lease = string.match(redis.call('HGET', L, 's') or '0|||', '^(%d)|(%d*)|(%d*)|(.*)$')
local up, vanished = false, false
if more == '1' then up, vanished = unpack(redis.call('HMGET', L, 'up', 'ab')) end
`;

/** The exclusive lease, and the lifetime of the lock key. What a step changes of them is written by `done`. */
export const LEASE = /* lua */ `
local function text(n) return string.format('%.0f', n) end
local sole, ends, free, held = false, 0, 0, nil
if lease ~= '' then
  local e, f, n, k, b, s, id, d, y, who = string.match(lease,
    '^(%d+)|(%d+)|(%d+)|(%d)|(%d*)|(%d+)|([^|]*)|(%d+)|(%d+)|(.*)$')
  sole, ends, free = id, e + y, e + y + d
  held = { id = id, delay = tonumber(d), ttl = tonumber(y), first = f, count = tonumber(n), over = tonumber(k),
    before = b, since = s, who = who }
end
local changed, longer = false, false
local function hold(h, till, delay, ttl)
  sole, ends, free, held, changed = h.id, till, till + delay, h, true
  lease = string.format('%.0f|%s|%d|%d|%s|%s|%s|%.0f|%.0f|%s', till - ttl, h.first, h.count, h.over, h.before, h.since,
    h.id, delay, ttl, h.who)
end
local function drop() sole, lease, changed = false, '', true end
-- The counter outlives every lease that could still be believed in: 7 days, and twice the longest ttl. An hour more at
-- a time, so that few steps must set it.
local function lasting(ms)
  local till = now + math.max(0, 2 * ms - 604800000)
  if tonumber(kept == '' and '0' or kept) >= till then return end
  kept, changed, longer = text(till + 3600000), true, true
end
-- The end of every step that may have changed something: what it returns.
local function done(reply)
  if changed then redis.call('HSET', L, 's', table.concat({ more, last, kept, lease }, '|')) end
  if longer then redis.call('PEXPIREAT', L, text(kept + 604800000)) end
  return reply
end
`;

/** The numbers of grants. */
export const TOKENS = /* lua */ `
local function larger(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end
local function plus(s, n)
  if #s < 16 then return text(tonumber(s) + n) end
  local low, high = tonumber(string.sub(s, -15)) + n, string.sub(s, 1, -16)
  if low >= 1e15 then low = low - 1e15; high = text(tonumber(high) + 1) end
  return high .. string.format('%015.0f', low)
end
local function above(first, low)
  if low and low ~= '' and not larger(first, low) then return plus(low, 1) end
  return first
end
-- First and last of a new block, above everything that was ever minted here; nothing when the numbers are used up.
local function mint(count, beyond)
  local first = above(above(above(text(us), last), up), beyond)
  local top = count == 1 and first or plus(first, count - 1)
  if larger(top, '4611686018427387903') then return nil end
  return first, top
end
`;

/** Occupants, queue, offers and tombstones: what an uncontended exclusive lease never needs. */
export const ASIDE = /* lua */ `
local WAITER = '^w|(%d+)|(%d+)|(%a)|(%d+)|(%d+)|([^|]*)|(.*)$'
local GRANT = '^h|(%d+)|(%d+)|(%d+)|(%a)|(%d*)|(%d)|(%d*)|(%d+)|(.*)$'
local m, p = unpack(redis.call('HMGET', L, 'm', 'p'))
local n = redis.call('ZCARD', C)
p = tonumber(p or '0')

-- Once there is something aside, the quick step, which sees no other key, must be told to leave the name alone.
local function aside()
  if more == '1' then return end
  more, changed = '1', true
  lasting(0)
end
local function stay(key, ms)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, text(ms)) end
end
local function waiter(id)
  local alive, arrival, mode, ttl, offer, channel, who =
    string.match(redis.call('HGET', R, id) or '', WAITER)
  if not alive then return nil end
  return { id = id, alive = tonumber(alive), arrival = arrival, mode = mode, ttl = tonumber(ttl),
    offer = tonumber(offer), channel = channel, who = who }
end
local function write(w)
  aside()
  redis.call('HSET', R, w.id, table.concat({ 'w', text(w.alive), w.arrival, w.mode, text(w.ttl),
    text(w.offer), w.channel, w.who }, '|'))
end
local function grant(id)
  local e, d, y, mode, f, k, b, s, who = string.match(redis.call('HGET', R, id) or '', GRANT)
  if not e then return nil end
  return { id = id, ends = tonumber(e), delay = tonumber(d), ttl = tonumber(y), mode = mode,
    first = f, over = k, before = b, since = s, who = who }
end
local function enter(h)
  aside()
  redis.call('HSET', R, h.id, table.concat({ 'h', text(h.ends), text(h.delay), text(h.ttl), h.mode,
    h.first, h.over, h.before, h.since, h.who }, '|'))
  redis.call('ZADD', C, text(h.ends + h.delay), h.id)
  stay(R, h.ends + h.delay - now + 60000)
  stay(C, h.ends + h.delay - now + 60000)
end

-- Brings the name up to now: leases and lock-delays that are over, offers that nobody took.
local function settle()
  if sole and free <= now then
    drop()
    redis.call('HSET', L, 'ab', 1)
    aside()
    vanished = '1'
  end
  if n == 0 then return end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', C, '-inf', text(now))) do
    redis.call('ZREM', C, id)
    n = n - 1
    local w = waiter(id)
    if w then
      -- Dead until it is heard again, at its old place.
      w.alive, w.offer = now, 0
      write(w)
      redis.call('ZREM', Q, id)
    elseif grant(id) then redis.call('HDEL', R, id) end
  end
end

local function room(mode)
  if sole then return false end
  if n == 0 then return true end
  if m ~= mode or mode == 'e' then return false end
  return mode == 's' or n < p
end
local function occupied(mode)
  n = n + 1
  if m ~= mode then m = mode; redis.call('HSET', L, 'm', mode) end
end

-- Offers what is free to the oldest live waiters and wakes each, except the one that is asking. True when no live
-- waiter is left without an offer. PUBLISH goes through pcall: without the right to a channel it fails after our writes.
local function offers(asking)
  local at = 0
  while true do
    local id = redis.call('ZRANGE', Q, at, at)[1]
    if not id then return true end
    local w = waiter(id)
    -- By its time, since its entry in C ends before the record of somebody who was away for a minute.
    if w and w.offer > now then at = at + 1
    elseif not w or w.alive <= now then redis.call('ZREM', Q, id)
    elseif not room(w.mode) then return false
    else
      w.offer = now + math.min(w.ttl, 3000)
      write(w)
      redis.call('ZADD', C, text(w.offer), id)
      stay(C, 60000)
      occupied(w.mode)
      if id ~= asking then redis.pcall('PUBLISH', w.channel, id) end
      at = at + 1
    end
  end
end

local function leave(id)
  redis.call('ZREM', Q, id)
  if redis.call('ZREM', C, id) == 1 then n = n - 1 end
  redis.call('HDEL', R, id)
end

-- The waiter lives. How many live ones stand before it, at most 100, and how long its silence is forgiven from here:
-- briefly near the head, where it would hold up the others.
local function heard(w)
  local rank = 0
  local before = redis.call('ZRANGEBYSCORE', Q, '-inf', '(' .. w.arrival, 'LIMIT', 0, 100)
  if #before > 0 then
    for _, record in ipairs(redis.call('HMGET', R, unpack(before))) do
      local alive = record and string.match(record, '^w|(%d+)')
      if alive and tonumber(alive) > now then rank = rank + 1 end
    end
  end
  local keep = rank < 3 and 3000 or 60000
  w.alive = now + keep
  write(w)
  redis.call('ZADD', Q, w.arrival, w.id)
  stay(R, 125000)
  stay(Q, 125000)
  return rank, keep
end

-- Forgets the dead, each time that the records have doubled.
local function sweep()
  local size = redis.call('HLEN', R)
  if size < tonumber(redis.call('HGET', L, 'sw') or '64') then return end
  local all = redis.call('HGETALL', R)
  for i = 1, #all, 2 do
    local kind, till = string.match(all[i + 1], '^(%a)|(%d+)')
    till = tonumber(till or '0')
    if kind == 'w' and till + 60000 <= now and not redis.call('ZSCORE', C, all[i]) then
      redis.call('ZREM', Q, all[i])
      redis.call('HDEL', R, all[i])
    elseif kind == 't' and till <= now then redis.call('HDEL', R, all[i]) end
  end
  redis.call('HSET', L, 'sw', text(2 * redis.call('HLEN', R) + 64))
  lasting(0)
end

-- This grant id must not be granted any more for so long.
local function bury(id, ms, revoked)
  aside()
  local till, before = string.match(redis.call('HGET', R, id) or '', '^t|(%d+)|(%d)')
  till = math.max(tonumber(till or '0'), now + ms)
  redis.call('HSET', R, id, 't|' .. text(till) .. '|' .. ((revoked or before == '1') and '1' or '0'))
  stay(R, ms + 1000)
  sweep()
end

-- Why this grant id has no lease: 0 expired, 1 taken, 2 revoked.
local function why(id)
  if string.match(redis.call('HGET', R, id) or '', '^t|%d+|1') then return 2 end
  return sole and sole ~= id and ends > now and 1 or 0
end
`;
