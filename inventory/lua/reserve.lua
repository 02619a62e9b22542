-- reserve: takes units for an order, or answers what became of it.
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id  [4] item  [5] user  [6] quantity  [7] attempt_for, ms
-- returns {code, run, seq, record, granted, available, until}
--   0 known  1 not enough  2 taken, none left  3 taken  -1 not preheated
--   -2 tombstone  -3 buyer's limit  -4 not running  -5 stale  -6 another order
--   -7 none free now; granted 1 when the caller owns the record's attempt
-- caller: Store.Reserve

local id, item, user = ARGV[3], ARGV[4], ARGV[5]
local quantity, attempt_for = whole(ARGV[6], 1), whole(ARGV[7], 1)
if not (quantity and attempt_for) or #id < 1 or #id > 64 or #user > 256 then
  return redis.error_reply('INVALID order: id, user, quantity or attempt')
end

local b, stale = open()
if not b then return stale end
local held = tonumber(redis.call('HGET', BUYERS, user) or '0')
local text = redis.call('HGET', LEDGER, id)
local r = parse(text)
if text and not r then return redis.error_reply('INVALID ledger record of ' .. id) end

local function answer(code, granted, available, till)
  return reply(b, code, r and r.text or '', granted and 1 or 0, available or 0, till or 0)
end

-- The ledger comes before the sale's state: whoever won learns it at any time.
if r then
  if r.state == 'x' then return answer(-2) end
  if r.user ~= user or item ~= b.item or r.quantity ~= quantity then return answer(-6) end
  if may_free(b, r) then
    close(b, id, r, 'e', 'reserved') -- its entry in the list is skipped later
  -- till 0: the shop has accepted and waits for the payment; nothing to forward.
  elseif r.state == 'r' and b.desired ~= 'cancelled' and r.till > 0 and r.till <= b.now and r.due - b.now >= attempt_for then
    r.attempt, r.till = r.attempt + 1, b.now + attempt_for
    save(b, id, r)
    watch(b, id, r, r.till)
    return answer(0, true)
  end
  return answer(0)
end

if b.desired ~= 'on' or b.now < b.start or b.now >= b.stop then return answer(-4) end
if item ~= b.item or quantity > b.max or attempt_for > b.hold then
  return redis.error_reply('INVALID order: item, quantity or attempt is outside the plan')
end

local function over_limit() return user ~= '' and b.limit > 0 and held + quantity > b.limit end
if over_limit() then
  -- His own hold may be over without anybody having freed it yet.
  free_due(b, math.huge)
  held = tonumber(redis.call('HGET', BUYERS, user) or '0')
  if over_limit() then return answer(-3) end
end

local head, bounded = free_due(b, quantity)
if b.free < quantity then
  if bounded or (b.free == 0 and b.reserved > 0) then return answer(-7, false, b.free, head) end
  return answer(1, false, b.free)
end

-- From here on only writes.
r = {
  state = 'r', quantity = quantity, at = b.now, due = math.max(b.now + b.hold, b.last_hold),
  attempt = 1, till = b.now + attempt_for, stuck = '0', user = user, order = '',
}
save(b, id, r)
b.free, b.reserved, b.last_hold = b.free - quantity, b.reserved + quantity, r.due
buyer(r, quantity)
redis.call('RPUSH', HOLDS, id)
watch(b, id, r, r.till)
return answer(b.free == 0 and 2 or 3, true, b.free)
