-- extend: the buyer is paying. His hold is prolonged, once, and stands from now
-- on in a line of its own.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order  [5] by, ms; at most the sale's hold
-- returns {code, run, seq, epoch, record}: 0 extended, or before, 1 unknown,
--   2 not allowed: another state, or due already
-- caller: Store.Extend

local id, by = ARGV[4], whole(ARGV[5], 1)
if not by then return redis.error_reply('INVALID time') end
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if not r then return reply(b, 1, '') end
if r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end
if r.state ~= 'r' then return reply(b, 2, r.text) end
if r.pay == '' then
  if r.due <= b.now then return reply(b, 2, r.text) end
  r.pay, r.due = 'p', math.max(r.due + math.min(by, b.hold), b.last_ext)
  b.last_ext = r.due
  put(b, id, r)
  push(b, EXTENDED, id)
end
return reply(b, 0, r.text)
