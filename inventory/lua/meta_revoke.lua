-- meta_revoke: a switch that is still on its way will do nothing from now on,
-- so the record that is read here is final.
-- KEYS[1] sales  KEYS[2] lease
-- ARGV[1] sale id  [2] generation
-- returns the sale's record, '' if none
-- caller: Store.Preheat

if redis.call('HGET', KEYS[2], 'gen') == ARGV[2] then redis.call('HSET', KEYS[2], 'revoked', '1') end
return redis.call('HGET', KEYS[1], ARGV[1]) or ''
