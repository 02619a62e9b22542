-- sweep: frees due holds and lists the attempts that ran out unsettled. Those
-- go back in line, to be asked about again in two seconds.
-- KEYS, ARGV[1..2]: see common.lua
-- returns {0, run, seq, units freed, {id, record, id, record, …}}
-- caller: Store.Sweep

local b, stale = open()
if not b then return stale end
local before = b.free
free_due(b, math.huge)

local ask = {}
for _ = 1, BOUND do
  local entry = redis.call('LINDEX', ATTEMPTS, 0)
  if not entry then break end
  local till, n, id = string.match(entry, '^(%d+) (%d+) (.*)$')
  if till and tonumber(till) > b.now then break end
  local r = id and parse(redis.call('HGET', LEDGER, id))
  if r and r.state == 'r' and r.till ~= 0 and r.attempt == tonumber(n) then
    watch(b, id, r, b.now + 2000)
    ask[#ask + 1] = id
    ask[#ask + 1] = r.text
  end
  redis.call('LPOP', ATTEMPTS)
end
return reply(b, 0, b.free - before, ask)
