-- confirm: the units are sold. On an expired hold it is a late payment: sold if
-- units are free for this buyer, otherwise the money is to be given back.
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id  [4] attempt, 0 = by the shop or an operator  [5] the shop's order
-- returns {code, run, seq, record}: 0 done or done before (read the state),
--   1 unknown id, 2 not allowed, 3 another attempt has been granted since
-- caller: Store.Confirm

local id, attempt, order = ARGV[3], whole(ARGV[4], 0), ARGV[5]
if not attempt then return redis.error_reply('INVALID attempt') end
local b, stale = open()
if not b then return stale end
local r = parse(redis.call('HGET', LEDGER, id))
if not r then return reply(b, 1, '') end

local code = 0
if (r.state == 'r' or r.state == 'e') and attempt > 0 and attempt ~= r.attempt then
  code = 3
elseif r.state == 'r' or r.state == 'e' then
  local late = r.state == 'e'
  if late then free_due(b, r.quantity) end
  local held = tonumber(redis.call('HGET', BUYERS, r.user) or '0')
  local within = r.user == '' or b.limit == 0 or held + r.quantity <= b.limit
  r.till, r.stuck = 0, '0'
  if order ~= '' then r.order = order end
  r.state = (not late or (b.free >= r.quantity and within)) and 'c' or 'd'
  save(b, id, r)
  if r.state == 'c' then
    local from = late and 'free' or 'reserved'
    b[from], b.confirmed = b[from] - r.quantity, b.confirmed + r.quantity
    if late then buyer(r, r.quantity) end
  end
elseif r.state ~= 'c' and r.state ~= 'd' then
  code = 2
end
return reply(b, code, r.text)
