-- grant: grants up to n events of a limit that all replicas share, by the
-- generic cell rate algorithm (GCRA): the key holds the time, in µs, at which
-- everything that was granted will have been paid for.
-- KEYS[1] the limit of one key
-- ARGV[1] n  [2] interval of one event, µs, maybe a fraction  [3] most that may be
--   granted ahead of its time, µs
-- ARGV[4] events of an earlier grant that come back unspent; below 0: events that
--   nobody asked for when they were spent  [5] how long ago the last of them was, µs
-- returns {events granted, µs until the next one if fewer than n}
-- caller: Cluster.ask

local n, interval, full = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local back, ago = tonumber(ARGV[4]), tonumber(ARGV[5])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- Little more than a whole burst is ever unpaid: what says twice that was written
-- before the clock was set back, or under a larger limit.
local paid = math.min(tonumber(redis.call('GET', KEYS[1]) or '') or 0, now + 2 * full)
if back < 0 then paid = math.max(paid, now - ago) end
paid = math.max(paid - back * interval, now)

local granted = math.max(math.min(n, math.floor((now + full - paid) / interval + 1e-6)), 0)
paid = paid + granted * interval
if paid > now then
  redis.call('SET', KEYS[1], string.format('%.3f', paid), 'PX', math.ceil((paid - now) / 1000) + 1000)
else
  redis.call('DEL', KEYS[1])
end
local wait = 0
if granted < n then wait = math.max(math.ceil(paid + interval - now - full), 1) end
return {granted, wait}
