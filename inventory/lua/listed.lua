-- listed: does a reservation that holds units stand in a list that frees it, and
-- in one that has its open attempt asked about? No fence: it shows what is there.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order
-- returns {0, run, seq, epoch, 1 if it is freed, 1 if it is asked about}; both 1
--   when it holds no units, or has no attempt open; -1 no bucket
-- caller: Store.unlisted

local SLICE = 1000
local id, h = ARGV[4], read_head()
if not h.gen then return {-1, '', 0, 0} end
local seq, epoch, asked = tonumber(h.seq) or 0, tonumber(h.epoch) or 0, tonumber(h.asked) or 0
local r = parse(redis.call('HGET', LEDGER, id))
if not r or r.bad or r.state ~= 'r' then return {0, h.run, seq, epoch, 1, 1} end

-- The first entry of each list was worked off before.
local freed, told = 0, r.till == 0 and 1 or 0
for _, at in ipairs(redis.call('LPOS', HOLDS, id, 'COUNT', 0)) do
  if at >= 1 then freed = 1 end
  if at >= 1 and at - 1 >= asked and r.attempt == 1 then told = 1 end
end
for _, at in ipairs(redis.call('LPOS', EXTENDED, id, 'COUNT', 0)) do
  if at >= 1 then freed = 1 end
end
local at, entry = 1, ' ' .. id .. ' ' .. int(r.attempt)
while told == 0 do
  local some = redis.call('LRANGE', ATTEMPTS, at, at + SLICE - 1)
  for _, line in ipairs(some) do
    if string.sub(line, -#entry) == entry then told = 1 end
  end
  if #some < SLICE then break end
  at = at + SLICE
end
-- A hold that left its list since its attempt is open is freed by the shop's word.
if r.till ~= 0 and told == 1 then freed = 1 end
return {0, h.run, seq, epoch, freed, told}
