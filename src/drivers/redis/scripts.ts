import { ASIDE, HEAD, LEASE, TOKENS } from "./lua.ts";

/** A named script. A simulator answers by the name; a server is given the text. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/**
 * One acquisition, asked for the first time or again.
 *
 * KEYS: l q c r
 * ARGV: grant id, mode (e s p), permits, ttl, lock-delay, join (no yes kept), tokens, above ('' or a token), channel,
 *   holder
 * Returns {1, first token or '', how many, took over, token before or '', ttl, 1 if there is no more to look at}, {0,
 *   queued, blocked by, holder, ask again in ms, keep entry for ms or -1}, {2} vanished, {3, permits} mismatch, {4}
 *   tokens used up
 */
export const ATTEMPT: Statement = {
  name: "attempt",
  text: /* lua */ `${HEAD}
local g, mode, ttl, delay, holder = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[10]
local join, count = ARGV[6], tonumber(ARGV[7])
${LEASE}${TOKENS}
local function renewed()
  hold(held, math.max(ends, now + ttl), delay, ttl)
  lasting(ttl + delay)
  return done({1, held.first, held.count, held.over, held.before, ttl, 0})
end
local function exclusive(alone)
  local first, top = mint(count, ARGV[8])
  if not first then return done({4}) end
  local over = ((sole and free <= now) or vanished) and 1 or 0
  local before = last
  hold({ id = g, first = first, count = count, over = over, before = before, since = text(now), who = holder },
    now + ttl, delay, ttl)
  last = top
  -- What was demanded is exceeded, and who never released is told of in the grant.
  if up or vanished then redis.call('HDEL', L, 'up', 'ab') end
  if alone then more = '0' end
  lasting(ttl + delay)
  return done({1, first, count, over, before, ttl, alone and 1 or 0})
end
-- Nothing aside, or nothing any more: then the quick step may do the next.
if redis.call('EXISTS', Q, C, R) == 0 then
  if sole == g and ends > now then return renewed() end
  if mode == 'e' and join ~= 'kept' and (not sole or free <= now) then return exclusive(true) end
end
${ASIDE}
local buried = string.match(redis.call('HGET', R, g) or '', '^t|(%d+)')
if buried and tonumber(buried) > now then return {2} end
settle()
if sole == g and ends > now then return renewed() end
local own = grant(g)
if own and own.ends > now then
  own.ends, own.ttl, own.delay = math.max(own.ends, now + ttl), ttl, delay
  enter(own)
  return done({1, own.first, 1, tonumber(own.over), own.before, ttl})
end
local w = waiter(g)
if join == 'kept' and not w then return done({2}) end

-- A semaphore has one count for all who use it now.
if mode == 'p' then
  local wanted = tonumber(ARGV[3])
  local used = n > 0 and m == 'p'
  if p ~= wanted and p ~= 0 and not used then
    for _, id in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
      local other = waiter(id)
      if other and other.mode == 'p' and other.alive > now then used = true; break end
    end
  end
  if p ~= wanted and p ~= 0 and used then
    if w then leave(g) end
    return done({3, p})
  end
  if p ~= wanted then
    p = wanted
    redis.call('HSET', L, 'p', ARGV[3])
    lasting(0)
  end
end

-- Heard first: a waiter that was silent for long is live again, at its old place, before anything is offered.
local rank, keep
if w then rank, keep = heard(w) end
local nobody = offers(g)
local offered = w and redis.call('ZSCORE', C, g)
if offered or (not w and nobody and room(mode)) then
  if w then leave(g) end
  if mode == 'e' then return exclusive(false) end
  local first, top, before = '', '', last
  if mode == 's' then
    first, top = mint(1, ARGV[8])
    if not first then return done({4}) end
    last, changed = top, true
  end
  local over = vanished and '1' or '0'
  enter({ id = g, ends = now + ttl, delay = delay, ttl = ttl, mode = mode, first = first, over = over,
    before = before, since = text(now), who = holder })
  occupied(mode)
  lasting(ttl + delay)
  return done({1, first, 1, tonumber(over), before, ttl})
end

if w and join == 'no' then leave(g); w, rank, keep = nil, nil, nil
elseif not w and join == 'yes' and redis.call('ZCARD', Q) < 10000 then
  w = { id = g, alive = 0, arrival = text(redis.call('HINCRBY', L, 'a', 1)), mode = mode, ttl = ttl, offer = 0,
    channel = ARGV[9], who = holder }
  rank, keep = heard(w)
  lasting(0)
  sweep()
end

local function oldest()
  for _, id in ipairs(redis.call('ZRANGE', Q, 0, 20)) do
    local other = id ~= g and waiter(id)
    if other and other.alive > now then return other.who end
  end
  return ''
end
-- Why it does not get in, who is in its way, and when that may be over but for the waiters before it.
local offered_till = 0
local function obstacle()
  if sole then return ends > now and 'lease' or 'lock-delay', held.who, free - now end
  local all = redis.call('ZRANGE', C, 0, -1, 'WITHSCORES')
  local till = #all > 0 and tonumber(all[#all]) or now
  local holders, living = 0, nil
  for i = 1, #all, 2 do
    if waiter(all[i]) then offered_till = tonumber(all[i + 1])
    else
      holders = holders + 1
      local h = not living and grant(all[i])
      if h and h.ends > now then living = h.who end
    end
  end
  if holders == 0 then return 'queue', oldest(), till - now end
  local semaphore = mode == 'p' and m == 'p'
  local wait = (semaphore and tonumber(all[2]) or till) - now
  -- Those who hold it would let this one in beside them, so only the queue stands in its way.
  if m == mode and (not semaphore or holders < p) then return 'queue', oldest(), wait end
  return living and 'lease' or 'lock-delay', living or '', wait
end
local by, who, wait = obstacle()
if not rank then rank = math.min(redis.call('ZCARD', Q), 100) end
-- After the offers that run, which may be to the dead, since an ask is what passes a lapsed one on: the nearest waiter
-- first, and each so long after the one before it. Else when there is room, and each one before it has let an offer pass.
local again = wait + rank * math.min(ttl, 3000)
if offered_till > now then again = offered_till - now + math.max(0, rank - 1) * 50 end
return done({0, w and 1 or 0, by, who, math.max(1, again), keep or -1})
`,
};

/**
 * Renews exclusive leases, each a step of its own. Each has one key, so that it goes through while a Cluster moves the slot.
 *
 * KEYS: l of each name
 * ARGV: for each name: grant id, ttl, lock-delay
 * Returns for each: 1 renewed, 0 not this: ask `renew-aside`
 */
export const RENEW: Statement = {
  name: "renew",
  text: /* lua */ `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local replies = {}
for i, L in ipairs(KEYS) do
  local g, ttl, delay = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local s = redis.pcall('HGET', L, 's')
  local head, kept, from, grant, id, had, holder = string.match(type(s) == 'string' and s or '',
    '^(%d|%d*|)(%d*)|(%d+)(|%d+|%d+|%d|%d*|%d+|)([^|]*)|%d+|(%d+)(|.*)$')
  replies[i] = 0
  if id == g and from + had > now then
    local till = now + math.max(0, 2 * (ttl + delay) - 604800000)
    local longer = tonumber(kept == '' and '0' or kept) < till
    if longer then kept = string.format('%.0f', till + 3600000) end
    redis.call('HSET', L, 's', head .. kept .. '|' .. math.max(from + had, now + ttl) - ttl .. grant .. g .. '|' .. delay ..
      '|' .. ttl .. holder)
    if longer then redis.call('PEXPIREAT', L, string.format('%.0f', kept + 604800000)) end
    replies[i] = 1
  end
end
return replies
`,
};

/**
 * Renews a shared lease, a permit or a place in the queue; or says why nothing is there.
 *
 * KEYS: l q c r
 * ARGV: grant id, ttl, lock-delay
 * Returns {1} renewed, {0, 0 expired | 1 taken | 2 revoked}
 */
export const RENEW_ASIDE: Statement = {
  name: "renew-aside",
  text: /* lua */ `${HEAD}${LEASE}${ASIDE}
local g, ttl, delay = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if sole == g and ends > now then
  hold(held, math.max(ends, now + ttl), delay, ttl)
  lasting(ttl + delay)
  return done({1})
end
settle()
local own = grant(g)
if own and own.ends > now then
  own.ends, own.ttl, own.delay = math.max(own.ends, now + ttl), ttl, delay
  enter(own)
  lasting(ttl + delay)
  return done({1})
end
local w = waiter(g)
if w then heard(w); return done({1}) end
return done({0, why(g)})
`,
};

/**
 * Gives back a lease or a place in the queue, and offers what is free now to the head. Only while the lease is one: in
 * its lock-delay it stays.
 *
 * KEYS: l q c r
 * ARGV: grant id, refuse late asks for so many ms ('0': none can come), raise the counter to ('' or a token)
 * Returns {1} released, {0, 0 expired | 1 taken | 2 revoked}
 */
export const RELEASE: Statement = {
  name: "release",
  text: /* lua */ `${HEAD}
local g, late = ARGV[1], tonumber(ARGV[2])
${LEASE}${ASIDE}
local function raise()
  if ARGV[3] == '' or #ARGV[3] > 19 then return end
  local low = up or ''
  if #ARGV[3] > #low or (#ARGV[3] == #low and ARGV[3] > low) then
    aside()
    redis.call('HSET', L, 'up', ARGV[3])
  end
end
local mine = sole == g and ends > now
settle()
local own, w = grant(g), waiter(g)
local reason = why(g)
local found = true
if mine then
  drop()
  raise()
elseif own and own.ends > now then
  leave(g)
  raise()
elseif w then leave(g)
else found = false end
if late > 0 then bury(g, late, false) end
if not found then return done({0, reason}) end
offers(nil)
return done({1})
`,
};

/**
 * Ends one grant, whoever has it: at once, or after its lock-delay.
 *
 * KEYS: l q c r
 * ARGV: grant id, now (1 or 0)
 * Returns {1} revoked, {0, 0 expired | 1 taken | 2 revoked}
 */
export const REVOKE: Statement = {
  name: "revoke",
  text: /* lua */ `${HEAD}${LEASE}${ASIDE}
local g, at_once = ARGV[1], ARGV[2] == '1'
settle()
local own = grant(g)
if sole == g and ends > now then
  local ttl, delay = held.ttl, held.delay
  if at_once or delay == 0 then
    drop()
    redis.call('HSET', L, 'ab', 1)
    aside()
  else hold(held, now, delay, ttl) end
  bury(g, math.max(ttl, 60000), true)
elseif own and own.ends > now then
  if at_once or own.delay == 0 then leave(g)
  else redis.call('ZADD', C, text(now + own.delay), g) end
  bury(g, math.max(own.ttl, 60000), true)
else return done({0, why(g)}) end
offers(nil)
return done({1})
`,
};

/**
 * Gives a lease another grant id, once, with larger tokens and a fresh ttl. The old id is not granted again.
 *
 * KEYS: l q c r
 * ARGV: grant id of the lease, new grant id, ttl, lock-delay, tokens, above ('' or a token), holder
 * Returns as `attempt` does for a grant, {0, 0 expired | 1 taken | 2 revoked}, {4} tokens used up
 */
export const EXCHANGE: Statement = {
  name: "exchange",
  text: /* lua */ `${HEAD}${LEASE}${TOKENS}${ASIDE}
local from, g, ttl, delay, count, holder =
  ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7]
settle()
if sole == g and ends > now then
  hold(held, math.max(ends, now + ttl), delay, ttl)
  lasting(ttl + delay)
  return done({1, held.first, held.count, held.over, held.before, ttl})
end
local own, old = grant(g), grant(from)
if own and own.ends > now then
  own.ends, own.ttl, own.delay = math.max(own.ends, now + ttl), ttl, delay
  enter(own)
  return done({1, own.first, 1, tonumber(own.over), own.before, ttl})
end
local before = last
if sole == from and ends > now then
  local first, top = mint(count, ARGV[6])
  if not first then return done({4}) end
  hold({ id = g, first = first, count = count, over = 0, before = before, since = text(now), who = holder },
    now + ttl, delay, ttl)
  last = top
  lasting(ttl + delay)
  bury(from, math.max(ttl, 60000), false)
  return done({1, first, count, 0, before, ttl})
end
if not old or old.ends <= now then return done({0, why(from)}) end
local first, top = '', ''
if old.mode == 's' then
  first, top = mint(1, ARGV[6])
  if not first then return done({4}) end
  last, changed = top, true
end
leave(from)
enter({ id = g, ends = now + ttl, delay = delay, ttl = ttl, mode = old.mode, first = first, over = '0',
  before = before, since = text(now), who = holder })
occupied(old.mode)
lasting(ttl + delay)
bury(from, math.max(ttl, 60000), false)
return done({1, first, 1, 0, before, ttl})
`,
};

/**
 * Everything about a name, for people. Reads only.
 *
 * KEYS: l q c r
 * Returns {mode or '', permits, quiet ms, holders, waiters}; a holder is {grant id, holder, first token or '', last
 *   token or '', remaining ms, since}, a waiter is {grant id, holder}
 */
export const INSPECT: Statement = {
  name: "inspect",
  text: /* lua */ `${HEAD}${LEASE}${TOKENS}${ASIDE}
local mode, quiet, holders, waiters, first = '', 0, {}, {}, nil
if sole and ends > now then
  mode = 'e'
  holders[1] = {sole, held.who, held.first, plus(held.first, held.count - 1), ends - now, held.since}
elseif sole then quiet = math.max(0, free - now) end
local all = redis.call('ZRANGE', C, 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  local h, w = grant(all[i]), waiter(all[i])
  if h and h.ends > now then
    mode = h.mode
    holders[#holders + 1] = {h.id, h.who, h.first, h.first, h.ends - now, h.since}
  elseif not w then quiet = math.max(quiet, tonumber(all[i + 1]) - now) end
end
for _, id in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
  local w = waiter(id)
  if w and w.alive > now then
    first = first or w.mode
    waiters[#waiters + 1] = {id, w.who}
  end
end
local counted = mode == 'p' or (#holders == 0 and first == 'p')
return {mode, counted and p or 1, quiet, holders, waiters}
`,
};

/**
 * Whether a name is held or waited for. Reads only.
 *
 * KEYS: l q c r
 * Returns 1 or 0
 */
export const IN_USE: Statement = {
  name: "in-use",
  text: /* lua */ `${HEAD}${LEASE}
if sole and ends > now then return 1 end
if redis.call('EXISTS', Q, C) == 0 then return 0 end
${ASIDE}
for _, id in ipairs(redis.call('ZRANGE', C, 0, -1)) do
  local h = grant(id)
  if h and h.ends > now then return 1 end
end
for _, id in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
  local w = waiter(id)
  if w and w.alive > now then return 1 end
end
return 0
`,
};
