-- bucket_void: shuts an old generation before the pointer moves, or opens it
-- again when the preheat failed. Only before its start.
-- KEYS[1] head
-- ARGV[1] the new generation  [2] 'void' or 'undo'
-- returns 0 done, 1 the sale has started, 2 a later preheat holds it, 3 no bucket
-- caller: Store.Preheat

local v = redis.call('HMGET', KEYS[1], 'void', 'start', 'epoch')
if not v[1] then return 3 end
if ARGV[2] == 'undo' then
  if v[1] == ARGV[1] then redis.call('HSET', KEYS[1], 'void', '0') end
  return 0
end
local t = redis.call('TIME')
if t[1] * 1000 + math.floor(t[2] / 1000) >= tonumber(v[2]) + tonumber(v[3]) then return 1 end
-- Generations only grow, so an older preheat that wakes late must not take over.
if tonumber(v[1]) > tonumber(ARGV[1]) then return 2 end
redis.call('HSET', KEYS[1], 'void', ARGV[1])
return 0
