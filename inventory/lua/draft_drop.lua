-- draft_drop: removes one draft, if it is still the one that was read.
-- KEYS[1] drafts  KEYS[2] sales
-- ARGV[1] sale id  [2] draft expected  [3] 1 = only while the sale has no record
-- returns 0 removed, 1 it changed, 2 the sale has a record
-- caller: Drafts.Delete, Drafts.Spend

if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 1 end
if ARGV[3] == '1' and redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 2 end
redis.call('HDEL', KEYS[1], ARGV[1])
return 0
