-- meta_tags: notes which buckets a preheat is going to write, while it has the lease.
-- KEYS[1] lease
-- ARGV[1] generation  [2] tags, parted by blanks
-- returns 0 noted, 1 the lease was lost
-- caller: Store.Preheat

local v = redis.call('HMGET', KEYS[1], 'gen', 'revoked')
if v[1] ~= ARGV[1] or v[2] ~= '0' then return 1 end
redis.call('HSET', KEYS[1], 'tags', ARGV[2])
return 0
