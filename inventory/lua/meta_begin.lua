-- meta_begin: takes the one preheat lease and a new generation.
-- KEYS[1] tags   hash: order tag -> sale id
-- KEYS[2] lease  hash: last generation given, and who preheats until when
-- ARGV[1] sale id, '' = only look for a dead preheat  [2] order tag  [3] lease, ms
-- returns {code, generation, sale}
--   0 taken  1 busy  2 the tag belongs to that sale  4 nothing to clean up
--   3 a preheat died: its lease is revoked and prolonged for the caller, who
--     must clean up that generation of that sale, end the lease and ask again
-- caller: Store.Preheat, Store.Refresh

local owner = redis.call('HGET', KEYS[1], ARGV[2])
if owner and owner ~= ARGV[1] then return {2, 0, owner} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local till = string.format('%.0f', now + tonumber(ARGV[3]))
local v = redis.call('HMGET', KEYS[2], 'sale', 'gen', 'until')
if v[1] and v[1] ~= '' then
  -- One that ends further ahead than a lease is long was given before the server's clock stepped back.
  local left = tonumber(v[3]) - now
  if left > 0 and left <= tonumber(ARGV[3]) then return {1, 0, v[1]} end
  redis.call('HSET', KEYS[2], 'until', till, 'revoked', '1')
  return {3, tonumber(v[2]), v[1]}
end
if ARGV[1] == '' then return {4, 0, ''} end
local gen = redis.call('HINCRBY', KEYS[2], 'last', 1)
redis.call('HSET', KEYS[2], 'sale', ARGV[1], 'gen', gen, 'until', till, 'revoked', '0', 'tags', '')
return {0, gen, ARGV[1]}
