-- Keeps the sound of an open challenge; the first one drawn stays, and the
-- challenge then lives on for the time it takes to listen.
-- KEYS[1] record   KEYS[2] live list
-- ARGV[1] sound  [2] sound ttl ms
-- Returns {1, sound} · {0} when the challenge is gone
-- Caller: Issuer.Sound
local rec = redis.call('HMGET', KEYS[1], 'expires', 'sound')
if not rec[1] then return {0} end
if rec[2] then return {1, rec[2]} end
local ttl = tonumber(ARGV[2])
local clock = redis.call('TIME')
local expires = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000) + ttl

redis.call('HSET', KEYS[1], 'sound', ARGV[1])
if expires > tonumber(rec[1]) then
  redis.call('HSET', KEYS[1], 'expires', string.format('%.0f', expires))
  redis.call('PEXPIRE', KEYS[1], ttl)
  if redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
end
return {1, ARGV[1]}
