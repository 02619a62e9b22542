-- meta_switch: the one pointer switch of a preheat.
-- KEYS[1] sales  KEYS[2] tags  KEYS[3] lease
-- ARGV[1] sale id  [2] order tag  [3] new generation  [4] record expected, '' = none  [5] new record
-- returns 0 switched, 1 the lease was lost, 2 the tag belongs to another sale, 3 the record changed
-- caller: Store.Preheat

local v = redis.call('HMGET', KEYS[3], 'sale', 'gen', 'revoked')
if v[1] ~= ARGV[1] or v[2] ~= ARGV[3] or v[3] ~= '0' then return 1 end
local owner = redis.call('HGET', KEYS[2], ARGV[2])
if owner and owner ~= ARGV[1] then return 2 end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[4] then return 3 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
return 0
