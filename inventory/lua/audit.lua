-- audit: tells a walk of the bucket's books what changed meanwhile. Scripts note
-- the orders that they change as long as the head's field `audit` says so, which
-- every call here prolongs; any number of walks may listen at once.
-- KEYS, ARGV[1..3]: see common.lua. No fence: it shows what is there.
-- ARGV[4] the listening that goes on, '' = begin one  [5] the place in the list
--   [6] most orders to tell
-- returns {code, run, seq, epoch, listening, place, {order, record, …},
--   {user, units, …}, orders left, {planned, lent_in, lent_out, free, reserved,
--   confirmed}, now}: 0 done, and with nothing left the counters are of the same
--   moment as the books; 6 the list was not kept: begin again
-- caller: Store.listen

local LISTEN = 10000 -- ms until a walk that says nothing more is over

local h = read_head()
if not h.gen then return {-1, '', 0, 0} end
local n, broken = numbers(h)
if not n then return redis.error_reply('BROKEN bucket: ' .. broken .. ' of ' .. HEAD .. ' is missing or no whole number') end
if h.gen ~= ARGV[2] then return {-5, h.run, n.seq, n.epoch, 'gen'} end
local time = time_ms()
local now = math.max(time - n.epoch, n.clock)
local listening, place, most = ARGV[4], whole(ARGV[5], 0), whole(ARGV[6], 1)
if not place or not most then return redis.error_reply('INVALID place or number') end
local listened, audits = tonumber(h.audit) or 0, tonumber(h.audits) or 0

if listening == '' then
  if listened <= now then audits = audits + 1 end -- nobody else listens
elseif listening ~= int(audits) or listened <= now then
  return {6, h.run, n.seq, n.epoch}
end
redis.call('HSET', HEAD, 'audit', int(now + LISTEN), 'audits', int(audits))
if listening == '' then
  if listened <= now then redis.call('LTRIM', CHANGES, 0, 0) end
  place = redis.call('LLEN', CHANGES)
end

local orders, users, seen = {}, {}, {}
local changed = redis.call('LRANGE', CHANGES, place, place + most - 1)
for _, id in ipairs(changed) do
  if id ~= '' and not seen[id] then
    seen[id] = true
    local text = redis.call('HGET', LEDGER, id) or ''
    orders[#orders + 1] = id
    orders[#orders + 1] = text
    local r = parse(text)
    if not r.bad and r.user ~= '' then
      users[#users + 1] = r.user
      users[#users + 1] = redis.call('HGET', BUYERS, r.user) or '0'
    end
  end
end
place = place + #changed
return {0, h.run, n.seq, n.epoch, int(audits), place, orders, users, redis.call('LLEN', CHANGES) - place,
  {tonumber(h.planned) or 0, n.lent_in, n.lent_out, n.free, n.reserved, n.confirmed}, time}
