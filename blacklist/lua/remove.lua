-- remove: takes one entry off the list.
-- KEYS   1 meta   2 entries   3 expiry   4 changes
-- ARGV   1 field   2 most changes kept   3 nudge channel
-- returns {seq, epoch, stored entry}; {0} when there is none
-- caller: store.remove
local stored = redis.call('HGET', KEYS[2], ARGV[1])
if not stored then
  return {0}
end
local meta = redis.call('HMGET', KEYS[1], 'seq', 'epoch')
local seq = string.format('%.0f', (tonumber(meta[1] or '0') or 0) + 1)

redis.call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[2], seq .. '-0', 'op', 'del', 'field', ARGV[1])
redis.call('HSET', KEYS[1], 'seq', seq)
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('PUBLISH', ARGV[3], seq)
return {tonumber(seq), meta[2] or '', stored}
