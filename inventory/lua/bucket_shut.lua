-- bucket_shut: no script changes this bucket any more; its last copy is made.
-- KEYS[1] head
-- ARGV[1] generation
-- returns 0 shut, 1 another generation or none
-- caller: Store.Cleanup

if redis.call('HGET', KEYS[1], 'gen') ~= ARGV[1] then return 1 end
redis.call('HSET', KEYS[1], 'void', 'shut')
return 0
