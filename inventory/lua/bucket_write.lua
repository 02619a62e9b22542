-- bucket_write: writes one bucket of a new generation. No key stays empty: see common.lua.
-- KEYS, ARGV[1]: see common.lua
-- ARGV[2] generation [3] item [4] start ms, 0 = now [5] end ms [6] units
-- [7] buyer limit [8] max quantity [9] hold ms [10] expiry [11] desired
-- [12] desired version
-- returns {code, start ms, now ms}: 0 written, perhaps before, 1 other keys are
--   there, 2 the end is past
-- caller: Store.Preheat

local now = time_ms()
local there = redis.call('HMGET', HEAD, 'gen', 'epoch', 'start')
if there[1] == ARGV[2] then return {0, tonumber(there[2]) + tonumber(there[3]), now} end
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return {1, 0, 0} end
end
local start = tonumber(ARGV[4])
if start == 0 then start = now end
if tonumber(ARGV[5]) <= math.max(now, start) then return {2, 0, now} end
local run = ARGV[1] == '1' and server_run() or 'memory'
-- The epoch lies before all times of the bucket, so none of them is negative.
local epoch = math.min(now, start)
for _, key in ipairs({LEDGER, BUYERS, LENT, ACCEPTED}) do redis.call('HSET', key, '', '') end
for _, key in ipairs({HOLDS, EXTENDED, ATTEMPTS, CHANGES}) do redis.call('RPUSH', key, '') end
redis.call('HSET', HEAD,
  'gen', ARGV[2], 'void', '0', 'run', run, 'seq', '0', 'epoch', int(epoch), 'clock', '0',
  'free', ARGV[6], 'reserved', '0', 'confirmed', '0', 'planned', ARGV[6], 'lent_in', '0', 'lent_out', '0',
  'expiry', ARGV[10], 'last_hold', '0', 'last_ext', '0', 'last_ask', '0', 'asked', '0', 'settle', '0', 'audit', '0', 'audits', '0', 'desired', ARGV[11], 'desired_version', ARGV[12],
  'start', int(start - epoch), 'end', int(tonumber(ARGV[5]) - epoch),
  'limit', ARGV[7], 'max', ARGV[8], 'hold', ARGV[9], 'item', ARGV[3], 'armed', '0')
return {0, start, now}
