-- Ends the user's live pass for a sale, if it still is the one of this order.
-- KEYS[1] passes
-- ARGV[1] sale  [2] order id
-- Returns {1} ended · {0} there is none, or another
-- Caller: Issuer.Forget
local pass = redis.call('HGET', KEYS[1], ARGV[1])
if not pass or string.match(pass, '^%d+:(.+)$') ~= ARGV[2] then return {0} end
redis.call('HDEL', KEYS[1], ARGV[1])
return {1}
