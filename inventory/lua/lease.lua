-- lease: one replica at a time does a job.
-- KEYS[1] leases  hash: job -> "<until ms> <replica>"
-- ARGV[1] job  [2] replica  [3] for how long, ms; 0 gives it back
-- returns 1 it is yours (or was given back), 0 another replica has it
-- caller: Store.Lease, Store.EndLease

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local job, replica, length = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- over(text, longest): nobody has it any more. One that ends further ahead than
-- it can last was given before the server's clock stepped back.
local function over(text, longest)
  local left = tonumber(string.match(text, '^(%d+) ')) - now
  return left <= 0 or left > longest
end

local held = redis.call('HGET', KEYS[1], job)
if held and string.match(held, '^%d+ (.*)$') ~= replica and not over(held, math.max(length, 60000)) then return 0 end
if length == 0 then
  redis.call('HDEL', KEYS[1], job)
elseif redis.call('HSET', KEYS[1], job, string.format('%.0f', now + length) .. ' ' .. replica) == 1 then
  -- A new job. Others whose replica died before it gave them back go; none is longer than an hour.
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if over(all[i + 1], 3600000) then redis.call('HDEL', KEYS[1], all[i]) end
  end
end
return 1
