-- lend: takes units out of a bucket for another one, and books where they go.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] loan  [5] units wanted  [6] the bucket that gets them
-- ARGV[7] '1' = the loan was accepted there and its lending forgotten here: book
--   it whole or not at all
-- returns {code, run, seq, epoch, units}: 0 lent, perhaps before; fewer than
--   wanted when fewer are free, 0 units when none is  5 a whole loan cannot be
--   booked: too few are free
-- caller: Store.gather, Store.repair

local loan, want, again = ARGV[4], whole(ARGV[5], 1), ARGV[7] == '1'
if not want or loan == '' or #loan > 64 then return redis.error_reply('INVALID loan') end
local b, stale = open()
if not b then return stale end

local before = redis.call('HGET', LENT, loan)
if before then return reply(b, 0, tonumber(string.match(before, '^(%d+) '))) end
free_due(b, want)
if again and b.free < want then return reply(b, 5, b.free) end
local units = math.min(b.free, want)
if units > 0 then
  note(b, LENT, loan, units, ARGV[6])
  b.free, b.lent_out = b.free - units, b.lent_out + units
end
return reply(b, 0, units)
