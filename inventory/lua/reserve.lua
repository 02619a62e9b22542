-- reserve: takes units for a batch of orders, or answers what became of them.
-- With a loan it first takes that in, so that what arrives is sold at once.
-- Without any order it frees what is due.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] loan, '' = none  [5] its units  [6] the bucket that lent them
-- then three for each order: ARGV[7] order  [8] user
--   [9] "<quantity> <attempt_for, ms> <kind> <item>", item '' = the sale's
-- returns {0, run, seq, epoch, answers, now, deadline}: an answer is the number of
--   units left here when the order took its own, and has then until `deadline`
--   and a first attempt from `now` on; else {code, record, number} with code
--   0 known (number 1: the caller owns the record's attempt)
--   1 not enough (number: free here)
--   -2 tombstone  -3 buyer's limit  -4 not running  -6 another order
--   -7 none free now (number: the earliest deadline known, 0 = none)
--   -8 not an order of this sale  -9 its record cannot be read  -10 the bucket
--   was armed a moment ago, see bucket_rearm.lua
-- caller: Store.flight

local argv, FIRST, WIDTH = ARGV, 7, 3
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
  orders[n], users[n] = argv[i], argv[i + 1]
end
if #orders > 0 then load(b, orders, users) else free_due(b, math.huge) end

-- known: the ledger comes before the sale's state, so whoever won learns it at any time.
local function known(id, user, d)
  local r = get(b, id)
  if r.bad then return {-9, '', 0} end
  if r.state == 'x' then return {-2, r.text, 0} end
  if r.user ~= user or not d.here or r.quantity ~= d.quantity then return {-6, r.text, 0} end
  if may_free(b, r) then
    close(b, id, r, 'e', 'reserved') -- its entry in the list is skipped later
  -- till 0: the shop has accepted and waits for the payment; nothing to forward.
  elseif r.state == 'r' and b.desired ~= 'cancelled' and r.till > 0 and r.till <= b.now and r.due - b.now >= d.attempt_for then
    r.attempt, r.till = r.attempt + 1, b.now + d.attempt_for
    put(b, id, r)
    watch(b, id, r, r.till)
    return {0, r.text, 1}
  end
  return {0, r.text, 0}
end

-- What the plan says is the same for all orders of the batch.
local running = b.desired == 'on' and b.now >= b.start and b.now < b.stop
local limit, have, records, changed, holds = b.limit, b.units, b.records, b.users, {}
local deadline = math.max(b.now + b.hold, b.last_hold)

-- detail(text): an order's terms, and how the record of a new reservation under
-- them begins; false when they cannot be. Mostly all of a batch are the same.
local details = {}
local function detail(text)
  local quantity, attempt_for, kind, item = string.match(text, '^(%S*) (%S*) (%S*) (.*)$')
  quantity, attempt_for = whole(quantity, 1), whole(attempt_for, 1)
  local d = false
  if quantity and attempt_for and #kind <= 16 then
    local here = item == '' or item == b.item
    d = {quantity = quantity, attempt_for = attempt_for, kind = kind, here = here,
      fits = here and quantity <= b.max and attempt_for <= b.hold,
      head = format('r %d %d %d 1 %d ', quantity, b.now, deadline, b.now + attempt_for), tail = ' ' .. #kind .. ' '}
  end
  details[text] = d
  return d
end

local function over_limit(user, quantity)
  return user ~= '' and limit > 0 and (have[user] or held(b, user)) + quantity > limit
end

local function take(id, user, d)
  local quantity = d.quantity
  local text = d.head .. int(#user) .. d.tail .. user .. d.kind
  records[id] = text
  put_text(b, id, text)
  b.free, b.reserved = b.free - quantity, b.reserved + quantity
  if user ~= '' then have[user], changed[user] = (have[user] or held(b, user)) + quantity, true end
  holds[#holds + 1] = id
  return b.free
end

local function one(id, user, d)
  if not d or #id < 1 or #id > 64 or #user > 256 then return {-8, '', 0} end
  if records[id] then return known(id, user, d) end
  if not running then return {-4, '', 0} end
  if not d.fits then return {-8, '', 0} end
  if b.settling then return {-10, '', 0} end
  local quantity = d.quantity
  if over_limit(user, quantity) then
    free_due(b, math.huge) -- his own hold may be over without anybody having freed it yet
    if over_limit(user, quantity) then return {-3, '', 0} end
  end
  local first, bounded = 0, false
  if b.free < quantity then first, bounded = free_due(b, quantity) end
  if b.free >= quantity then return take(id, user, d) end
  if bounded or (b.free == 0 and b.reserved > 0) then return {-7, '', first} end
  return {1, '', b.free}
end

local out, n = {}, 0
for i = FIRST, #argv, WIDTH do
  n = n + 1
  local d = details[argv[i + 2]]
  if d == nil then d = detail(argv[i + 2]) end
  out[n] = one(argv[i], argv[i + 1], d)
end
if #holds > 0 then
  b.lines[HOLDS], b.last_hold, b.changed = holds, deadline, true
end
return reply(b, 0, out, b.now, deadline)
