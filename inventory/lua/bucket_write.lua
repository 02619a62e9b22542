-- bucket_write: writes the head of a new generation. Its other keys come with
-- the first order.
-- KEYS, ARGV[1]: see common.lua
-- ARGV[2] generation [3] item [4] start ms, 0 = now [5] end ms [6] units
-- [7] buyer limit [8] max quantity [9] hold ms [10] expiry [11] desired
-- [12] desired version
-- returns {code, start ms, now ms}: 0 written, 1 these keys exist, 2 the end is past
-- caller: Store.Preheat

for i = 1, 5 do
  if redis.call('EXISTS', KEYS[i]) == 1 then return {1, 0, 0} end
end
local now = now_ms()
local start = tonumber(ARGV[4])
if start == 0 then start = now end
if tonumber(ARGV[5]) <= math.max(now, start) then return {2, 0, now} end
local run = ARGV[1] == '1' and server_run() or 'memory'
redis.call('HSET', HEAD,
  'gen', ARGV[2], 'void', '0', 'run', run, 'seq', '0', 'free', ARGV[6], 'reserved', '0', 'confirmed', '0',
  'expiry', ARGV[10], 'last_hold', '0', 'last_ask', '0', 'desired', ARGV[11], 'start', int(start), 'end', ARGV[5],
  'limit', ARGV[7], 'max', ARGV[8], 'hold', ARGV[9], 'item', ARGV[3],
  'planned', ARGV[6], 'lent_in', '0', 'lent_out', '0', 'desired_version', ARGV[12], 'armed', '0')
return {0, start, now}
