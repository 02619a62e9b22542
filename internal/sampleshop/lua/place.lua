-- Places one order per idempotency key, or refuses it for good.
--
-- KEYS[1] outcomes   hash: idempotency key -> "order <id>" | "refused <status>"
-- KEYS[2] orders     hash: order id -> JSON
-- KEYS[3] list       list: order ids of its sale, the oldest first
-- ARGV[1] idempotency key
-- ARGV[2] order id to use if it is new
-- ARGV[3] order as JSON
-- ARGV[4] no order after this time, Unix milliseconds; 0 = never
-- ARGV[5] status to refuse a new key with; 0 = sell
-- ARGV[6] "1" when that refusal is final and must be remembered
-- returns {200, order id, 1 if created just now} or {status, "", 0}
-- caller: Shop.place
--
-- The deadline is judged here, beside the look-up and the write: an answer 410
-- frees the unit, so no slower POST of the same key may still create an order.
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then
  local id = string.match(known, '^order (.+)$')
  if id then
    return {200, id, 0}
  end
  return {tonumber(string.match(known, '^refused (%d+)$')), '', 0}
end

local refuse = tonumber(ARGV[5])
if refuse ~= 0 then
  if ARGV[6] == '1' then
    redis.call('HSET', KEYS[1], ARGV[1], 'refused ' .. refuse)
  end
  return {refuse, '', 0}
end

local expires = tonumber(ARGV[4])
if expires > 0 then
  local t = redis.call('TIME')
  if tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) >= expires then
    redis.call('HSET', KEYS[1], ARGV[1], 'refused 410')
    return {410, '', 0}
  end
end

redis.call('RPUSH', KEYS[3], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], 'order ' .. ARGV[2])
return {200, ARGV[2], 1}
