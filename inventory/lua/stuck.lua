-- stuck: marks a reservation whose outcome the shop cannot tell. It keeps its unit.
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id
-- returns {code, run, seq, record}: 0 marked, 1 unknown id, 2 not reserved
-- caller: Store.MarkStuck

local id = ARGV[3]
local b, stale = open()
if not b then return stale end
local r = parse(redis.call('HGET', LEDGER, id))
if not r then return reply(b, 1, '') end
if r.state ~= 'r' then return reply(b, 2, r.text) end
if r.stuck ~= '1' then
  r.stuck = '1'
  save(b, id, r)
end
return reply(b, 0, r.text)
