-- restore: puts a reservation back that Redis has forgotten, or moves one on
-- that it remembers in an earlier state. Units are taken from what is free.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order  [5] state, r or c  [6] user  [7] kind  [8] quantity
-- [9] reserved at  [10] deadline  [11] attempt  [12] until, all as in a record
-- [13] the shop's order  [14] '1' = other buckets have been asked for units
-- returns {code, run, seq, epoch, record}: 0 it is so now, 2 it stands in a
--   state from which there is no way, 4 too few free here, nothing changed,
--   5 too few free: a deficit, nothing changed
-- caller: Store.Restore

local id, state, user, kind, order = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[13]
local n = {}
for i = 8, 12 do
  n[i] = whole(ARGV[i], i == 8 and 1 or 0)
  if not n[i] then return redis.error_reply('INVALID number of a record') end
end
if #id < 1 or #id > 64 or #user > 256 or #kind > 16 or (state ~= 'r' and state ~= 'c') then
  return redis.error_reply('INVALID record')
end
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if r and r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end

if r then
  if r.state == 'r' and state == 'c' then
    r.state, r.till, r.stuck = 'c', 0, ''
    if order ~= '' then r.order = order end
    put(b, id, r)
    b.reserved, b.confirmed = b.reserved - r.quantity, b.confirmed + r.quantity
  end
  local there = r.state == state or (state == 'r' and r.state ~= 'x')
  return reply(b, there and 0 or 2, r.text)
end
free_due(b, n[8])
if b.free < n[8] then return reply(b, ARGV[14] == '1' and 5 or 4, '') end
local due = math.max(n[10], b.last_hold)
r = {
  state = state, quantity = n[8], at = n[9], due = state == 'r' and due or n[10], attempt = n[11],
  till = state == 'r' and n[12] or 0, stuck = '', pay = '', user = user, kind = kind, order = order,
}
put(b, id, r)
b.free = b.free - r.quantity
count(b, user, r.quantity)
if state == 'c' then
  b.confirmed = b.confirmed + r.quantity
else
  b.reserved, b.last_hold = b.reserved + r.quantity, due
  push(b, HOLDS, id)
  if r.till > 0 and not first_open(r) then watch(b, id, r, r.till) end
end
return reply(b, 0, r.text)
