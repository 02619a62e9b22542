-- bucket_rearm: accepts a new server run. With no change missing the sale goes
-- on at once; a gap pauses it, for a person to look at.
-- KEYS[1] head
-- ARGV[1] generation  [2] the least seq that the bucket must have, which is the
--   highest one that the caller saw  [3] for how long no order takes units, ms
-- returns {code, run, seq, epoch}: 0 armed, 1 armed before, 2 armed and paused: a gap,
--   -1 no bucket of this generation
-- caller: Store.rearm

local v = redis.call('HMGET', KEYS[1], 'gen', 'run', 'seq', 'armed', 'epoch')
if v[1] ~= ARGV[1] then return {-1, '', 0, 0} end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
local seq, epoch = tonumber(v[3]), tonumber(v[5])
if not seq or not epoch or not v[4] then return redis.error_reply('BROKEN bucket: seq, epoch or armed of ' .. KEYS[1] .. ' is missing') end
if v[2] == run then return {1, run, seq, epoch} end
-- armed: the seq at each arming, so that other replicas can judge by what they saw.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000) - epoch
redis.call('HSET', KEYS[1], 'run', run, 'armed', v[4] .. ' ' .. v[3], 'settle', string.format('%.0f', now + tonumber(ARGV[3])))
if seq >= tonumber(ARGV[2]) then return {0, run, seq, epoch} end
redis.call('HSET', KEYS[1], 'desired', 'paused')
return {2, run, seq, epoch}
