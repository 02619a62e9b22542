-- expire: the shop said that it has no order. A due hold is freed.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order
-- returns {code, run, seq, epoch, record}: 0 done or done before, 1 unknown,
--   2 not allowed (not due, or another state)
-- caller: Store.Expire

local id = ARGV[4]
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if not r then return reply(b, 1, '') end
if r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end

local code = 0
if r.state == 'r' and r.due <= b.now then
  close(b, id, r, 'e', 'reserved')
elseif r.state ~= 'e' then
  code = 2
end
return reply(b, code, r.text)
