-- meta_retire: deletes what is left of a sale that only the archive knows from now on.
-- KEYS[1] sales  KEYS[2] tags  KEYS[3] quotas
-- ARGV[1] sale id  [2] record expected  [3] order tag  [4] quota expected, '' = none
-- returns 0 deleted, 3 one of them changed
-- caller: Store.retire

if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 3 end
if (redis.call('HGET', KEYS[3], ARGV[1]) or '') ~= ARGV[4] then return 3 end
redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HGET', KEYS[2], ARGV[3]) == ARGV[1] then redis.call('HDEL', KEYS[2], ARGV[3]) end
redis.call('HDEL', KEYS[3], ARGV[1])
return 0
