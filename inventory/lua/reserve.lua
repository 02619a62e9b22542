-- reserve: takes units for a batch of orders, or answers what became of them.
-- With a loan it first takes that in, so that what arrives is sold at once.
-- Without any order it frees what is due.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] loan, '' = none  [5] its units  [6] the bucket that lent them
-- then six for each order: ARGV[7] order  [8] item, '' = the sale's  [9] user
--   [10] quantity  [11] attempt_for, ms  [12] kind of document
-- returns {0, run, seq, epoch, {code, record, number, code, record, number, …}}
--   0 known (number 1: the caller owns the record's attempt)
--   1 not enough (number: free here)  2 taken, none left  3 taken (number: left)
--   -2 tombstone  -3 buyer's limit  -4 not running  -6 another order
--   -7 none free now (number: the earliest deadline known, 0 = none)
--   -8 not an order of this sale  -9 its record cannot be read
-- caller: Store.flight

local argv, FIRST, WIDTH = ARGV, 7, 6
local LOAN = argv[4]
local units = LOAN ~= '' and whole(argv[5], 1)
if LOAN ~= '' and not units then return redis.error_reply('INVALID loan') end

local b, stale = open()
if not b then return stale end

if LOAN ~= '' and redis.call('HEXISTS', ACCEPTED, LOAN) == 0 then
  note(b, ACCEPTED, LOAN, units, argv[6])
  b.free, b.lent_in = b.free + units, b.lent_in + units
end

local orders, users = {}, {}
for i = FIRST, #argv, WIDTH do
  local n = #orders + 1
  orders[n], users[n] = argv[i], argv[i + 2]
end
if #orders > 0 then load(b, orders, users) else free_due(b, math.huge) end

-- known: the ledger comes before the sale's state, so whoever won learns it at any time.
local function known(id, item, user, quantity, attempt_for)
  local r = get(b, id)
  if r.bad then return -9, '', 0 end
  if r.state == 'x' then return -2, r.text, 0 end
  if r.user ~= user or (item ~= '' and item ~= b.item) or r.quantity ~= quantity then return -6, r.text, 0 end
  if may_free(b, r) then
    close(b, id, r, 'e', 'reserved') -- its entry in the list is skipped later
  -- till 0: the shop has accepted and waits for the payment; nothing to forward.
  elseif r.state == 'r' and b.desired ~= 'cancelled' and r.till > 0 and r.till <= b.now and r.due - b.now >= attempt_for then
    r.attempt, r.till = r.attempt + 1, b.now + attempt_for
    put(b, id, r)
    watch(b, id, r, r.till)
    return 0, r.text, 1
  end
  return 0, r.text, 0
end

-- What the plan says is the same for all orders of the batch.
local running = b.desired == 'on' and b.now >= b.start and b.now < b.stop
local item_here, max, hold, limit, have = b.item, b.max, b.hold, b.limit, b.units

local function over_limit(user, quantity)
  return user ~= '' and limit > 0 and (have[user] or held(b, user)) + quantity > limit
end

-- fresh(quantity, attempt_for): how records of new reservations begin in this
-- script, and when their attempts end. All but their users mostly is the same.
local same = {}
local function fresh(quantity, attempt_for)
  if same.quantity ~= quantity or same.attempt_for ~= attempt_for then
    b.last_hold = math.max(b.now + b.hold, b.last_hold)
    local till = b.now + attempt_for
    same = {quantity = quantity, attempt_for = attempt_for, attempt = 1, till = till,
      head = format('r %d %d %d 1 %d ', quantity, b.now, b.last_hold, till)}
  end
  return same.head, same.till
end

local function take(id, user, quantity, attempt_for, kind)
  local head, till = fresh(quantity, attempt_for)
  local text = head .. int(#user) .. ' ' .. int(#kind) .. ' ' .. user .. kind
  b.records[id] = text
  put_text(b, id, text)
  b.free, b.reserved = b.free - quantity, b.reserved + quantity
  count(b, user, quantity)
  push(b, HOLDS, id)
  watch(b, id, same, till)
  return b.free == 0 and 2 or 3, text, b.free
end

-- number(text): whole(text, 1), computed once for each text of the batch.
local numbers = {}
local function number(text)
  local n = numbers[text]
  if n == nil then
    n = whole(text, 1) or false
    numbers[text] = n
  end
  return n
end

local function one(id, item, user, quantity, attempt_for, kind)
  quantity, attempt_for = numbers[quantity] or number(quantity), numbers[attempt_for] or number(attempt_for)
  if not (quantity and attempt_for) or #id < 1 or #id > 64 or #user > 256 or #kind > 16 then return -8, '', 0 end
  if b.records[id] then return known(id, item, user, quantity, attempt_for) end
  if not running then return -4, '', 0 end
  if (item ~= '' and item ~= item_here) or quantity > max or attempt_for > hold then return -8, '', 0 end
  if over_limit(user, quantity) then
    free_due(b, math.huge) -- his own hold may be over without anybody having freed it yet
    if over_limit(user, quantity) then return -3, '', 0 end
  end
  local first, bounded = 0, false
  if b.free < quantity then first, bounded = free_due(b, quantity) end
  if b.free >= quantity then return take(id, user, quantity, attempt_for, kind) end
  if bounded or (b.free == 0 and b.reserved > 0) then return -7, '', first end
  return 1, '', b.free
end

local out, n = {}, 0
for i = FIRST, #argv, WIDTH do
  out[n + 1], out[n + 2], out[n + 3] = one(argv[i], argv[i + 1], argv[i + 2], argv[i + 3], argv[i + 4], argv[i + 5])
  n = n + 3
end
return reply(b, 0, out)
