-- meta_end: gives the preheat lease back; nothing is left to clean up.
-- KEYS[1] lease
-- ARGV[1] generation
-- returns 0
-- caller: Store.Preheat

if redis.call('HGET', KEYS[1], 'gen') == ARGV[1] then redis.call('HSET', KEYS[1], 'sale', '', 'gen', '0') end
return 0
