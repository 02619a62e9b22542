-- level: reads the counters as they stand. No fence: it shows what is there.
-- KEYS[1] head
-- returns {now ms, run, seq, gen, void, desired, desired_version, planned,
--   lent_in, lent_out, free, reserved, confirmed, arm, armed list}, {} if absent
-- caller: Store.Refresh, Store.Level

local t = redis.call('TIME')
local v = redis.call('HMGET', KEYS[1], 'run', 'seq', 'gen', 'void', 'desired', 'desired_version', 'planned',
  'lent_in', 'lent_out', 'free', 'reserved', 'confirmed', 'armed')
if not v[3] then return {} end
local out = {t[1] * 1000 + math.floor(t[2] / 1000)}
for i = 1, 13 do out[i + 1] = v[i] or '' end
return out
