-- Sets aside for a sale, or ends setting aside, units of an item's product
-- stock. Numbers are absolute, so twice is once; steps only grow, and an older
-- one is refused.
--
-- KEYS[1] stock      hash: item -> units that are not set aside; none = ARGV[6]
-- KEYS[2] quotas     hash: sale -> "<state> <units> <back> <step> <item>", state
--                    frozen | thawed; back = units that came back with the thaw
-- ARGV[1] sale
-- ARGV[2] item
-- ARGV[3] "frozen" or "thawed"
-- ARGV[4] units to be frozen; of a thaw, units to come back
-- ARGV[5] step
-- ARGV[6] stock of an item that was never asked about
-- ARGV[7] most sales that are remembered
-- returns {1, units left} done or done before · {0, last step} the step is past ·
--         {-1, item} units of another item are frozen for the sale ·
--         {-2, units left} too few are left · {-3, most} no room for another sale
-- caller: Shop.setQuota
local want, units, step = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local free = tonumber(redis.call('HGET', KEYS[1], ARGV[2]) or ARGV[6])
local left = free
local known = redis.call('HGET', KEYS[2], ARGV[1])
local state, had, back, last, item = 'thawed', 0, 0, 0, ARGV[2]
if known then
  state, had, back, last, item = string.match(known, '^(%a+) (%d+) (%d+) (%d+) (.+)$')
  had, back, last = tonumber(had), tonumber(back), tonumber(last)
end

if step < last then return {0, string.format('%.0f', last)} end
if item ~= ARGV[2] then
  if state == 'frozen' then return {-1, item} end
  state, had, back = 'thawed', 0, 0 -- of this item nothing is frozen
end
if not known and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[7]) then
  -- Nothing is frozen, so a thaw is no error; nor can it be overtaken here.
  if want == 'thawed' then return {1, string.format('%.0f', left)} end
  return {-3, ARGV[7]}
end

if want == 'frozen' then
  local before = state == 'frozen' and had or 0
  left, had, back = left - (units - before), units, 0
else
  local now = math.min(units, had)
  left, back = left + (now - back), now
end
if left < 0 then return {-2, string.format('%.0f', free)} end

redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', left))
redis.call('HSET', KEYS[2], ARGV[1], string.format('%s %.0f %.0f %s %s', want, had, back, ARGV[5], ARGV[2]))
return {1, string.format('%.0f', left)}
