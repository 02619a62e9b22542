-- sweep: frees due holds and lists the attempts that ran out unsettled. Those
-- go back in line, to be asked about again in two seconds.
-- KEYS, ARGV[1..3]: see common.lua
-- returns {0, run, seq, epoch, units freed, {order, record, order, record, …},
--   1 if it stopped at its bound and more may be due}
-- caller: Store.Sweep

local b, stale = open()
if not b then return stale end

local ask, looked = {}, 0
local function tell(id, r)
  watch(b, id, r, b.now + 2000)
  ask[#ask + 1] = id
  ask[#ask + 1] = r.text
end

for _, id in ipairs(redis.call('LRANGE', HOLDS, b.asked + 1, b.asked + BOUND)) do
  local r = get(b, id)
  if first_open(r) and not may_free(b, r) then
    if r.till > b.now then break end
    tell(id, r)
  end
  b.asked, b.changed, looked = b.asked + 1, true, looked + 1
end

local before = b.free
free_due(b, math.huge)

while looked < BOUND do
  local entry = peek(b, ATTEMPTS)
  if not entry then break end
  local till, id, n = string.match(entry, '^(%d+) (%S+) (%d+)$')
  if till and tonumber(till) > b.now then break end
  local r = id and get(b, id)
  if r and r.state == 'r' and r.till ~= 0 and r.attempt == tonumber(n) then tell(id, r) end
  pop(b, ATTEMPTS)
  looked = looked + 1
end
if b.heard > 1 and b.audit <= b.now then b.forget, b.changed = true, true end -- its audit is over
local bounded = looked >= BOUND or b.looked >= BOUND
return reply(b, 0, b.free - before, ask, bounded and 1 or 0)
