-- lease: one replica at a time does a job.
-- KEYS[1] leases  hash: job -> "<until ms> <replica>"
-- ARGV[1] job  [2] replica  [3] for how long, ms; 0 gives it back
-- returns 1 it is yours (or was given back), 0 another replica has it
-- caller: Store.Lease, Store.EndLease

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local till, who = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (.*)$')
if till and who ~= ARGV[2] and tonumber(till) > now then return 0 end
if ARGV[3] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + tonumber(ARGV[3])) .. ' ' .. ARGV[2])
end
return 1
