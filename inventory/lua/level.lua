-- level: reads the counters as they stand. No fence: it shows what is there.
-- KEYS[1] head  KEYS[2] ledger  KEYS[3] holds  KEYS[4] extended
-- returns {now ms, due ms, run, seq, gen, void, desired, desired_version,
--   planned, lent_in, lent_out, free, reserved, confirmed, armed list, epoch}; due is
--   the earliest deadline at the head of a list, 0 = none; {} if absent
-- caller: Store.Refresh, Store.Level

local t = redis.call('TIME')
local v = redis.call('HMGET', KEYS[1], 'run', 'seq', 'gen', 'void', 'desired', 'desired_version', 'planned',
  'lent_in', 'lent_out', 'free', 'reserved', 'confirmed', 'armed', 'epoch')
if not v[3] then return {} end
-- An extended hold stands in both lists and counts in the second one only.
-- Where this many head the first one, a script has to work them off.
local LOOK = 16
local now, due = t[1] * 1000 + math.floor(t[2] / 1000), 0
for i = 3, 4 do
  for entry = 1, LOOK do
    -- pcall: what is wrong with these keys is the other scripts' to tell.
    local id = redis.pcall('LINDEX', KEYS[i], entry)
    local text = type(id) == 'string' and redis.pcall('HGET', KEYS[2], id)
    local flags, at = string.match(type(text) == 'string' and text or '', '^(%a+) %d+ %d+ (%d+) ')
    local skip = i == 3 and flags and string.find(flags, 'p', 2, true)
    at = at and tonumber(at) + tonumber(v[14])
    if skip and entry == LOOK then at, skip = now, nil end
    if not skip then
      if at and (due == 0 or at < due) then due = at end
      break
    end
  end
end
local out = {now, due}
for i = 1, 14 do out[i + 2] = v[i] or '' end
return out
