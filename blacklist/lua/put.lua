-- put: writes one entry, replacing an entry of the same scope and value.
-- KEYS   1 meta   2 entries   3 expiry   4 changes
-- ARGV   1 field   2 entry as JSON   3 end in Unix ms, 0 = permanent
--        4 most entries   5 most changes kept   6 nudge channel
--        7 epoch to use when the list is new
-- returns {seq, epoch}; {-1, entries} when the list is full
-- caller: store.put
local field, json, ends = ARGV[1], ARGV[2], tonumber(ARGV[3])
local most = tonumber(ARGV[4])

local count = redis.call('HLEN', KEYS[2])
if count >= most and redis.call('HEXISTS', KEYS[2], field) == 0 then
  return {-1, tostring(count)}
end
local meta = redis.call('HMGET', KEYS[1], 'seq', 'epoch')
local seq = string.format('%.0f', (tonumber(meta[1] or '0') or 0) + 1)
local epoch = meta[2] or ARGV[7]
local stored = seq .. ':' .. json

-- XADD comes first: it is the only write that can refuse (an id not above the last).
redis.call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[5], seq .. '-0', 'op', 'set', 'field', field, 'entry', stored)
redis.call('HSET', KEYS[1], 'seq', seq, 'epoch', epoch)
redis.call('HSET', KEYS[2], field, stored)
if ends > 0 then
  redis.call('ZADD', KEYS[3], ARGV[3], field)
else
  redis.call('ZREM', KEYS[3], field)
end
redis.call('PUBLISH', ARGV[6], seq)
return {tonumber(seq), epoch}
