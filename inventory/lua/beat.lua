-- beat: this replica is alive. How many are?
-- KEYS[1] replicas  hash: replica -> last beat, ms
-- ARGV[1] replica  [2] how long a beat counts, ms
-- returns the number of replicas alive, this one included
-- caller: Store.Refresh

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now))
local all, alive = redis.call('HGETALL', KEYS[1]), 0
for i = 1, #all, 2 do
  local at = tonumber(all[i + 1])
  -- A beat from the future was made by a clock that has been set back.
  if at + tonumber(ARGV[2]) < now or at > now + tonumber(ARGV[2]) then
    redis.call('HDEL', KEYS[1], all[i])
  else
    alive = alive + 1
  end
end
return alive
