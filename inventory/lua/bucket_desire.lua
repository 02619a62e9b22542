-- bucket_desire: brings the operator's wish to the bucket; older wishes lose.
-- KEYS[1] head
-- ARGV[1] generation  [2] desired  [3] its version
-- returns 0 set or newer there, 1 another generation or none
-- caller: Store.SetDesired, Store.Refresh

local v = redis.call('HMGET', KEYS[1], 'gen', 'desired_version')
if v[1] ~= ARGV[1] then return 1 end
if tonumber(v[2]) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'desired', ARGV[2], 'desired_version', ARGV[3])
end
return 0
