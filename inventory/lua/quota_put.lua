-- quota_put: writes or deletes one quota if it is still the one that was read:
-- of two that act on it one is told to look again.
-- KEYS[1] quotas  hash: sale id -> quota as JSON
-- ARGV[1] sale id  [2] quota expected, '' = none  [3] new quota, '' = delete  [4] most quotas
-- returns 0 written, 1 it changed, 2 too many quotas
-- caller: Store.putQuota

local most = tonumber(ARGV[4])
if not most then return redis.error_reply('INVALID quota') end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 1 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return 0
end
if ARGV[2] == '' and redis.call('HLEN', KEYS[1]) >= most then return 2 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 0
