-- quota_look: reads one quota and the time by which it is judged.
-- KEYS[1] quotas  hash: sale id -> quota as JSON
-- ARGV[1] sale id
-- returns {quota, '' = none; now ms}
-- caller: Store.lookQuota

local t = redis.call('TIME')
return {redis.call('HGET', KEYS[1], ARGV[1]) or '', t[1] * 1000 + math.floor(t[2] / 1000)}
