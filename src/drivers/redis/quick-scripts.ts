import type { Statement } from "./scripts.ts";

/** What the field `s` is without a lease, and what it is with one, where there is nothing more to look at. */
const FREE = "'^0|(%d*)|(%d*)|$'";
const HELD = "'^0|(%d*)|(%d*)|(%d+)|%d+|%d+|%d|%d*|%d+|([^|]*)|%d+|(%d+)|'";

/** Whether the moment `us` is a token above the counter: both are text, which compares only at one length. */
const RISES = "(last == '' or (#last == #us and last < us))";

/** Writes the lease that `told` tells of; the counter is kept for an hour more where that is due. */
function taken(key: string, told: string): string {
  return /* lua */ `local longer = #kept < #now or (#kept == #now and kept < now)
if longer then kept = string.format('%.0f', now + 3600000) end
redis.call('HSET', ${key}, 's',
  '0|' .. us .. '|' .. kept .. '|' .. now .. '|' .. us .. '|1|0|' .. last .. '|' .. now .. '|' .. ${told})
if longer then redis.call('PEXPIREAT', ${key}, string.format('%.0f', kept + 604800000)) end`;
}

/** Writes that there is no lease. */
function givenBack(key: string): string {
  return `redis.call('HSET', ${key}, 's', '0|' .. last .. '|' .. kept .. '|')`;
}

/**
 * Takes an exclusive lease of a name that nobody else wants: with `give-back`, what nearly every step is. Both touch one
 * field of the lock key, and leave a name alone at which there is more to look at: `attempt` and `release` do what they
 * did not do. Times and tokens stay text of one length.
 *
 * KEYS: l
 * ARGV: `grant id|lock-delay|ttl|holder`; twice lock-delay and ttl are at most a week
 * Returns `token|token before or nothing`; 0 not done
 */
export const TAKE: Statement = {
  name: "take",
  text: /* lua */ `
local s, t = redis.call('HGET', KEYS[1], 's'), redis.call('TIME')
local us = t[1] .. string.sub('00000' .. t[2], -6)
local now = string.sub(us, 1, -4)
local last, kept = '', ''
if s then
  last, kept = string.match(s, ${FREE})
  if not last or not ${RISES} then return 0 end
end
${taken("KEYS[1]", "ARGV[1]")}
return us .. '|' .. last
`,
};

/**
 * Gives back an exclusive lease of a name that nobody else wants.
 *
 * KEYS: l
 * ARGV: grant id
 * Returns 1 given back, 0 not done
 */
export const GIVE_BACK: Statement = {
  name: "give-back",
  text: /* lua */ `
local s = redis.call('HGET', KEYS[1], 's')
if not s then return 0 end
local last, kept, from, id, ttl = string.match(s, ${HELD})
if id ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
if from + ttl <= math.floor(t[1] * 1000 + t[2] / 1000) then return 0 end
${givenBack("KEYS[1]")}
return 1
`,
};

/**
 * Several of those at once, which came in one turn, each name a step of its own. For a single one, its lists would take
 * the server longer than the step.
 *
 * KEYS: l of each name, those to give back first
 * ARGV: how many are to be given back, the grant id of each of them; then for each that is to be taken what `take` is told
 * Returns {token, then for each key: 0 not done, 1 given back, the token before or ''}
 */
export const QUICK: Statement = {
  name: "quick",
  text: /* lua */ `
local t = redis.call('TIME')
local us = t[1] .. string.sub('00000' .. t[2], -6)
local now = string.sub(us, 1, -4)
local replies, back, at = { us }, tonumber(ARGV[1]), 2
for i = 1, back do
  local s, id = redis.pcall('HGET', KEYS[i], 's'), ARGV[at]
  replies[i + 1], at = 0, at + 1
  if type(s) == 'string' then
    local last, kept, from, held, ttl = string.match(s, ${HELD})
    if held == id and from + ttl > tonumber(now) then
      ${givenBack("KEYS[i]")}
      replies[i + 1] = 1
    end
  end
end
for i = back + 1, #KEYS do
  local s = redis.pcall('HGET', KEYS[i], 's')
  local last, kept = '', ''
  if s then last, kept = string.match(type(s) == 'string' and s or '', ${FREE}) end
  if not last or not ${RISES} then replies[i + 1] = 0
  else
    ${taken("KEYS[i]", "ARGV[at]")}
    replies[i + 1] = last
  end
  at = at + 1
end
return replies
`,
};
