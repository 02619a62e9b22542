-- sweep: removes entries whose end has passed. Replicas judge the end
-- themselves; this only gives the memory back, there and here.
-- KEYS   1 meta   2 entries   3 expiry   4 changes
-- ARGV   1 most entries to remove   2 grace in ms: how long past its end
--        3 most changes kept   4 nudge channel
-- returns the number removed
-- caller: store.sweep
local time = redis.call('TIME')
local due = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - tonumber(ARGV[2])
local fields = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', due), 'LIMIT', 0, ARGV[1])
if #fields == 0 then
  return 0
end
local number = tonumber(redis.call('HGET', KEYS[1], 'seq') or '0') or 0
for _, field in ipairs(fields) do
  number = number + 1
  local seq = string.format('%.0f', number)
  redis.call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[3], seq .. '-0', 'op', 'del', 'field', field)
  redis.call('HSET', KEYS[1], 'seq', seq)
  redis.call('HDEL', KEYS[2], field)
  redis.call('ZREM', KEYS[3], field)
end
redis.call('PUBLISH', ARGV[4], string.format('%.0f', number))
return #fields
