-- draft_put: writes one draft, if draft and record are still those that were
-- read: of two editors at once one is told that the plan changed.
-- KEYS[1] drafts  KEYS[2] sales
-- ARGV[1] sale id  [2] draft expected, '' = none  [3] record expected, '' = none  [4] new draft
--   [5] start of what is preheated, ms, 0 = nothing is  [6] most drafts
-- returns 0 written, 1 one of the two changed, 2 the sale has started, 3 too many drafts
-- caller: Drafts.Create, Drafts.Replace

local start, most = tonumber(ARGV[5]), tonumber(ARGV[6])
if not start or not most or ARGV[4] == '' then return redis.error_reply('INVALID draft') end
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 1 end
if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[3] then return 1 end
local t = redis.call('TIME')
if start > 0 and t[1] * 1000 + math.floor(t[2] / 1000) >= start then return 2 end
if ARGV[2] == '' and redis.call('HLEN', KEYS[1]) >= most then return 3 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return 0
