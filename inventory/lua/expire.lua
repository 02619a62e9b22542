-- expire: the shop said that it has no order. A due hold is freed.
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id
-- returns {code, run, seq, record}: 0 done or done before, 1 unknown id,
--   2 not allowed (not due, or another state)
-- caller: Store.Expire

local id = ARGV[3]
local b, stale = open()
if not b then return stale end
local r = parse(redis.call('HGET', LEDGER, id))
if not r then return reply(b, 1, '') end

local code = 0
if r.state == 'r' and r.due <= b.now then
  close(b, id, r, 'e', 'reserved')
elseif r.state ~= 'e' then
  code = 2
end
return reply(b, code, r.text)
