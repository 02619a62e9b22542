-- bucket_rearm: accepts a new server run. With no change missing the sale goes
-- on at once; a gap pauses it, for a person to look at.
-- KEYS[1] head
-- ARGV[1] generation  [2] the highest seq that the caller saw
-- returns {code, run, seq, epoch}: 0 armed, 1 armed before, 2 armed and paused: a gap,
--   -1 no bucket of this generation
-- caller: Store.rearm

local v = redis.call('HMGET', KEYS[1], 'gen', 'run', 'seq', 'armed', 'epoch')
if v[1] ~= ARGV[1] then return {-1, '', 0, 0} end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
local seq, epoch = tonumber(v[3]), tonumber(v[5])
if v[2] == run then return {1, run, seq, epoch} end
-- armed: the seq at each arming, so that other replicas can judge by what they saw.
redis.call('HSET', KEYS[1], 'run', run, 'armed', v[4] .. ' ' .. v[3])
if seq >= tonumber(ARGV[2]) then return {0, run, seq, epoch} end
redis.call('HSET', KEYS[1], 'desired', 'paused')
return {2, run, seq, epoch}
