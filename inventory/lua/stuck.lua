-- stuck: marks a reservation whose outcome the shop cannot tell. It keeps its unit.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order
-- returns {code, run, seq, epoch, record}: 0 marked, 1 unknown, 2 not reserved
-- caller: Store.MarkStuck

local id = ARGV[4]
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if not r then return reply(b, 1, '') end
if r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end
if r.state ~= 'r' then return reply(b, 2, r.text) end
if r.stuck == '' then
  r.stuck = 's'
  put(b, id, r)
end
return reply(b, 0, r.text)
