-- accept: the shop has the order, unpaid. The attempt is closed, the units stay reserved.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order  [5] attempt, 0 = by the shop or an operator  [6] the shop's order
-- returns {code, run, seq, epoch, record}: 0 done or done before, 1 unknown,
--   2 not allowed from the stored state, 3 another attempt has been granted since
-- caller: Store.Accept

local id, attempt, order = ARGV[4], whole(ARGV[5], 0), ARGV[6]
if not attempt then return redis.error_reply('INVALID attempt') end
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if not r then return reply(b, 1, '') end
if r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end

local code = 0
if r.state == 'r' then
  if attempt > 0 and attempt ~= r.attempt then
    code = 3
  elseif r.till ~= 0 or (order ~= '' and order ~= r.order) then
    r.till, r.stuck = 0, ''
    if order ~= '' then r.order = order end
    put(b, id, r)
    -- A due hold may have left the list while its outcome was unknown. The
    -- first entry of a list counts as worked off, so '' goes in front.
    if r.due <= b.now then
      redis.call('LPUSH', r.pay == 'p' and EXTENDED or HOLDS, id, '')
      if r.pay == '' then b.asked = b.asked + 2 end
    end
  end
elseif r.state ~= 'c' then -- paid before the acceptance arrived: more than accepted
  code = 2
end
return reply(b, code, r.text)
