-- confirm: the units are sold. On an expired hold it is a late payment: sold if
-- units are free for this buyer, otherwise the money is to be given back.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order  [5] attempt, 0 = by the shop or an operator  [6] the shop's order
-- ARGV[7] '1' = other buckets have been asked for units: this answer is final
-- returns {code, run, seq, epoch, record}: 0 done or done before (read the
--   state), 1 unknown, 2 not allowed, 3 another attempt has been granted since,
--   4 too few free here for a late payment, nothing changed
-- caller: Store.Confirm

local id, attempt, order = ARGV[4], whole(ARGV[5], 0), ARGV[6]
if not attempt then return redis.error_reply('INVALID attempt') end
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if not r then return reply(b, 1, '') end
if r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end

local code = 0
if (r.state == 'r' or r.state == 'e') and attempt > 0 and attempt ~= r.attempt then
  code = 3
elseif r.state == 'r' or r.state == 'e' then
  local late = r.state == 'e'
  local function within() return r.user == '' or b.limit == 0 or held(b, r.user) + r.quantity <= b.limit end
  if late then free_due(b, r.quantity) end
  if late and not within() then free_due(b, math.huge) end -- another hold of his may be over
  local allowed = within()
  local short = late and allowed and b.free < r.quantity
  if short and ARGV[7] ~= '1' then return reply(b, 4, r.text) end
  r.till, r.stuck = 0, ''
  if order ~= '' then r.order = order end
  r.state = (not late or (allowed and not short)) and 'c' or 'd'
  put(b, id, r)
  if r.state == 'c' then
    local from = late and 'free' or 'reserved'
    b[from], b.confirmed = b[from] - r.quantity, b.confirmed + r.quantity
    if late then count(b, r.user, r.quantity) end
  end
elseif r.state ~= 'c' and r.state ~= 'd' then
  code = 2
end
return reply(b, code, r.text)
