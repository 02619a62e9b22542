-- meta_swap: replaces a sale's record if it is still the one that was read.
-- KEYS[1] sales
-- ARGV[1] sale id  [2] record expected  [3] new record
-- returns 0 replaced, 3 it changed
-- caller: Store.SetDesired

if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 3 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 0
