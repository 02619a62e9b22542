-- Writes a new challenge. The user's oldest open ones beyond the bound are taken
-- off his list, which closes them. Run twice with the same id (a client's retry
-- after a lost reply) it does what it does once.
-- KEYS[1] record   KEYS[2] live list   KEYS[3] issued counter
-- ARGV[1] id  [2] ttl ms  [3] longest life ms (of the list)  [4] most open
--     [5] most issued within ttl  [6…] field, value, … of the record
-- Returns {1, expires ms, dropped id…} · {0, ms until more may be issued}
-- Caller: Issuer.Issue
local ttl = tonumber(ARGV[2])
local issued = tonumber(redis.call('GET', KEYS[3])) or 0
local again = redis.call('EXISTS', KEYS[1]) == 1
if not again and issued >= tonumber(ARGV[5]) then
  local left = redis.call('PTTL', KEYS[3])
  if left < 0 then -- a counter without an end would shut the user out for ever
    redis.call('PEXPIRE', KEYS[3], ttl)
    left = ttl
  end
  return {0, left}
end
local clock = redis.call('TIME')
local expires = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000) + ttl
local fields = {}
for n = 6, #ARGV do fields[#fields + 1] = ARGV[n] end

if not again then
  redis.call('INCR', KEYS[3])
  if issued == 0 then redis.call('PEXPIRE', KEYS[3], ttl) end
end
redis.call('HSET', KEYS[1], 'expires', string.format('%.0f', expires), unpack(fields))
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('LREM', KEYS[2], 0, ARGV[1])
redis.call('LPUSH', KEYS[2], ARGV[1])
local most = tonumber(ARGV[4])
local answer = {1, expires}
for _, id in ipairs(redis.call('LRANGE', KEYS[2], most, -1)) do answer[#answer + 1] = id end
redis.call('LTRIM', KEYS[2], 0, most - 1)
redis.call('PEXPIRE', KEYS[2], tonumber(ARGV[3]))
return answer
