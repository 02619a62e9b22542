-- Takes and burns a challenge, judges the answer, and gives or renews the user's
-- one live pass for the sale. Always burns, whatever the answer looks like. The
-- verdict is kept for a moment: who repeats the same question hears it again (his
-- reply was lost), any other question to a burned challenge hears "gone".
-- Answers are compared as keyed hashes made by the caller, so neither they nor
-- the time of the comparison say anything.
-- KEYS[1] record   KEYS[2] verdict   KEYS[3] live list   KEYS[4] passes
-- ARGV[1] id  [2] proof (keyed hash of the answer)  [3] ask (keyed hash of the
--     whole question)  [4] sale or ''  [5] item or ''  [6] device hash
--     [7] '1' = the device is compared  [8] pass ttl ms  [9] verdict ttl ms
-- Returns {code, order id, sale, item, expires ms}: 1 right, 2 wrong, 3 right but
--     made for another sale, item or device · {0} gone
-- Caller: Issuer.Solve, Issuer.SolveFor
local told = redis.call('HMGET', KEYS[2], 'ask', 'code', 'order', 'sale', 'item', 'expires')
if told[1] then
  if told[1] ~= ARGV[3] then return {0} end
  return {tonumber(told[2]), told[3], told[4], told[5], tonumber(told[6])}
end
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local rec = redis.call('HMGET', KEYS[1], 'proof', 'order', 'sale', 'item', 'device', 'expires')
local open = false
for _, id in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  if id == ARGV[1] then open = true end
end
local pass = rec[3] and redis.call('HGET', KEYS[4], rec[3])

redis.call('DEL', KEYS[1])
if open then redis.call('LREM', KEYS[3], 0, ARGV[1]) end
for n = 1, 6 do
  if not rec[n] then open = false end
end
if not open or (tonumber(rec[6]) or 0) <= now then return {0} end

local order, sale, item = rec[2], rec[3], rec[4]
local code = 1
if rec[1] ~= ARGV[2] then
  code = 2
elseif (ARGV[4] ~= '' and ARGV[4] ~= sale) or (ARGV[5] ~= '' and ARGV[5] ~= item)
    or (ARGV[7] == '1' and ARGV[6] ~= rec[5]) then
  code = 3
end
local expires = 0
if code == 1 then
  expires = now + tonumber(ARGV[8])
  if pass then
    local till, live = string.match(pass, '^(%d+):(.+)$')
    if till and tonumber(till) > now then order = live end
  end
  local all = redis.call('HGETALL', KEYS[4])
  for n = 1, #all, 2 do
    local till = string.match(all[n + 1], '^(%d+):')
    if not till or tonumber(till) <= now then redis.call('HDEL', KEYS[4], all[n]) end
  end
  redis.call('HSET', KEYS[4], sale, string.format('%.0f', expires) .. ':' .. order)
  redis.call('PEXPIRE', KEYS[4], tonumber(ARGV[8]))
else
  order = ''
end
redis.call('HSET', KEYS[2], 'ask', ARGV[3], 'code', code, 'order', order,
  'sale', sale, 'item', item, 'expires', string.format('%.0f', expires))
redis.call('PEXPIRE', KEYS[2], tonumber(ARGV[9]))
return {code, order, sale, item, expires}
