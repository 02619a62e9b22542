-- accept: the shop has the order, unpaid. The attempt is closed, the units stay reserved.
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id  [4] attempt, 0 = by the shop or an operator  [5] the shop's order
-- returns {code, run, seq, record}: 0 done or done before, 1 unknown id,
--   2 not allowed from the stored state, 3 another attempt has been granted since
-- caller: Store.Accept

local id, attempt, order = ARGV[3], whole(ARGV[4], 0), ARGV[5]
if not attempt then return redis.error_reply('INVALID attempt') end
local b, stale = open()
if not b then return stale end
local r = parse(redis.call('HGET', LEDGER, id))
if not r then return reply(b, 1, '') end

local code = 0
if r.state == 'r' then
  if attempt > 0 and attempt ~= r.attempt then
    code = 3
  elseif r.till ~= 0 or (order ~= '' and order ~= r.order) then
    r.till, r.stuck = 0, '0'
    if order ~= '' then r.order = order end
    save(b, id, r)
    -- A due hold may have left the list while its outcome was unknown.
    if r.due <= b.now then redis.call('LPUSH', HOLDS, id) end
  end
elseif r.state ~= 'c' then -- paid before the acceptance arrived: more than accepted
  code = 2
end
return reply(b, code, r.text)
