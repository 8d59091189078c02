/*
 * The guard's scripts. KEYS[1] is the hash with the entries and floors of one store: field `e:<resource>` is
 * `token|grant id|scope|last use|commit`, field `f:<scope>` a token, field `v` the format. Tokens are decimal strings,
 * compared by length and then by digits: a Lua number would round them. Times are the server's, in milliseconds.
 *
 * Every script answers a list: {1, …} done, {0, i, token} stale at the i-th resource (token '' where there is no
 * entry), {2, i, scope} the i-th resource is another scope's, {3} what was read has changed, {4} this commit was applied
 * before, {5, format} the hash is of a newer version, {6, key} a key has another type than the write needs.
 */

const HEAD = /* lua */ `
local G = KEYS[1]
local v = redis.call('HGET', G, 'v')
if v and v ~= '1' then return {5, v} end
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local function more(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end
local function entry(resource)
  local e = redis.call('HGET', G, 'e:' .. resource)
  if not e then return nil end
  local token, grant, scope, used, commit = string.match(e, '^(%d+)|([^|]*)|([^|]*)|(%d+)|(.*)$')
  return { token = token, grant = grant, scope = scope, used = used, commit = commit }
end
local function install(resource, token, grant, scope, commit)
  redis.call('HSET', G, 'v', '1', 'e:' .. resource, table.concat({ token, grant, scope, now, commit }, '|'))
end
`;

/** Only while every entry is the presented pair. Its own commit may have come before: a client that re-sends. */
const VERIFY = /* lua */ `
local function verified(list, token, grant, scope, commit)
  for i, resource in ipairs(list) do
    local e = entry(resource)
    if not e then return {0, i - 1, ''} end
    if e.scope ~= scope then return {2, i - 1, e.scope} end
    if e.token ~= token or e.grant ~= grant then return {0, i - 1, e.token} end
    if e.commit == commit then return {4} end
  end
  return nil
end
local function touch(list, token, grant, scope, commit)
  for _, resource in ipairs(list) do install(resource, token, grant, scope, commit) end
end
`;

/** A script with the name that its errors tell. */
export interface Script {
  readonly name: string;
  readonly text: string;
}

/** KEYS: hash. ARGV: token, grant id, scope, resources. Claims all of them or none. */
export const CLAIM: Script = {
  name: "claim",
  text: /* lua */ `${HEAD}
local token, grant, scope = ARGV[1], ARGV[2], ARGV[3]
local floor = redis.call('HGET', G, 'f:' .. scope) or '0'
for i = 4, #ARGV do
  local e = entry(ARGV[i])
  if e then
    if e.scope ~= scope then return {2, i - 4, e.scope} end
    if not more(token, e.token) and (token ~= e.token or grant ~= e.grant) then return {0, i - 4, e.token} end
  elseif not more(token, floor) then return {0, i - 4, floor} end
end
for i = 4, #ARGV do install(ARGV[i], token, grant, scope, '') end
return {1}
`,
};

/** KEYS: hash, data. ARGV: what, field. Reads one value: `e` an entry, `f` a floor, `g` GET, `h` HGET, `a` HGETALL. */
export const READ: Script = {
  name: "read",
  text: /* lua */ `${HEAD}
local what, field = ARGV[1], ARGV[2]
if what == 'e' then return {1, redis.call('HGET', G, 'e:' .. field)} end
if what == 'f' then return {1, redis.call('HGET', G, 'f:' .. field)} end
if what == 'g' then return {1, redis.call('GET', KEYS[2])} end
if what == 'h' then return {1, redis.call('HGET', KEYS[2], field)} end
return {1, redis.call('HGETALL', KEYS[2])}
`,
};

/**
 * KEYS: hash, data. ARGV: a plan in JSON: `commit`, `holders` [[token, grant id, scope, [resources]]], `reads`
 * [[what, key, field, value or null]], `writes` [[what, key, …]] with keys by their number in KEYS. Applies the writes
 * only where all holders' entries stand and everything that was read is still so. Types are looked at before the first
 * write, since a script that fails in the middle keeps what it wrote.
 */
export const COMMIT: Script = {
  name: "commit",
  text: /* lua */ `${HEAD}${VERIFY}
local plan = cjson.decode(ARGV[1])
for _, holder in ipairs(plan.holders) do
  local refusal = verified(holder[4], holder[1], holder[2], holder[3], plan.commit)
  if refusal then return refusal end
end
local function same(found, value)
  if value == cjson.null then return not found end
  return found == value
end
for _, read in ipairs(plan.reads) do
  local what, key, field, value = read[1], KEYS[read[2]], read[3], read[4]
  if what == 'g' then
    if not same(redis.call('GET', key), value) then return {3} end
  elseif what == 'h' then
    if not same(redis.call('HGET', key, field), value) then return {3} end
  else
    local pairs_ = redis.call('HGETALL', key)
    if #pairs_ ~= #value then return {3} end
    local seen = {}
    for i = 1, #pairs_, 2 do seen[pairs_[i]] = pairs_[i + 1] end
    for i = 1, #value, 2 do
      if seen[value[i]] ~= value[i + 1] then return {3} end
    end
  end
end
for _, write in ipairs(plan.writes) do
  if write[1] == 'hset' or write[1] == 'hdel' then
    local kind = redis.call('TYPE', KEYS[write[2]]).ok
    if kind ~= 'hash' and kind ~= 'none' then return {6, KEYS[write[2]]} end
  end
end
for _, write in ipairs(plan.writes) do
  local what, key = write[1], KEYS[write[2]]
  if what == 'del' then redis.call('DEL', key)
  elseif what == 'set' then
    if write[4] == '' then redis.call('SET', key, write[3])
    else redis.call('SET', key, write[3], 'PX', write[4]) end
  elseif what == 'hset' then redis.call('HSET', key, write[3], write[4])
  else redis.call('HDEL', key, write[3]) end
end
for _, holder in ipairs(plan.holders) do touch(holder[4], holder[1], holder[2], holder[3], plan.commit) end
return {1}
`,
};

/** KEYS: hash. ARGV: resource, the entry as it was read, the new one without its time, the left scope, its floor. */
export const ADOPT: Script = {
  name: "adopt",
  text: /* lua */ `${HEAD}
local found = redis.call('HGET', G, 'e:' .. ARGV[1]) or ''
if found ~= ARGV[2] then return {3} end
local token, grant, scope = string.match(ARGV[3], '^(%d+)|([^|]*)|([^|]*)$')
install(ARGV[1], token, grant, scope, '')
if more(ARGV[5], redis.call('HGET', G, 'f:' .. ARGV[4]) or '0') then
  redis.call('HSET', G, 'f:' .. ARGV[4], ARGV[5])
end
return {1}
`,
};

/** KEYS: hash. ARGV: time in ms. Deletes entries last used before it, floors in their place; answers how many. */
export const PURGE: Script = {
  name: "purge",
  text: /* lua */ `${HEAD}
local all, gone = redis.call('HGETALL', G), 0
for i = 1, #all, 2 do
  local resource = string.match(all[i], '^e:(.*)$')
  if resource then
    local e = entry(resource)
    if more(ARGV[1], e.used) then
      local floor = 'f:' .. e.scope
      if more(e.token, redis.call('HGET', G, floor) or '0') then redis.call('HSET', G, floor, e.token) end
      redis.call('HDEL', G, all[i])
      gone = gone + 1
    end
  end
end
return {1, gone}
`,
};

/**
 * A user's script behind the check. KEYS: hash, the user's. ARGV: commit, token, grant id, scope, how many resources,
 * resources, the user's. Its KEYS and ARGV begin at 1 as always; a refusal comes before its first line.
 */
export function guardedScript(body: string): Script {
  return {
    name: "eval",
    text: /* lua */ `${HEAD}${VERIFY}
local list, args, count = {}, {}, tonumber(ARGV[5])
for i = 6, 5 + count do list[#list + 1] = ARGV[i] end
for i = 6 + count, #ARGV do args[#args + 1] = ARGV[i] end
local keys = {}
for i = 2, #KEYS do keys[#keys + 1] = KEYS[i] end
local refusal = verified(list, ARGV[2], ARGV[3], ARGV[4], ARGV[1])
if refusal then return refusal end
touch(list, ARGV[2], ARGV[3], ARGV[4], ARGV[1])
local function body(KEYS, ARGV)
${body}
end
local result = body(keys, args)
if type(result) == 'table' and result.err then return result end
return {1, result}
`,
  };
}
