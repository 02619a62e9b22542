-- Marks an order as paid or cancelled. Cancelled is for good: the order's key is
-- refused from then on, so that no repeat of its POST finds an order again.
--
-- KEYS[1] outcomes   hash: idempotency key -> "order <id>" | "refused <status>"
-- KEYS[2] orders     hash: order id -> JSON
-- KEYS[3] states     hash: order id -> "paid" | "cancelled"; none = placed
-- ARGV[1] order id
-- ARGV[2] "paid" or "cancelled"
-- returns 1 done or done before, 0 no such order, -1 it is cancelled
-- caller: Shop.Mark
local text = redis.call('HGET', KEYS[2], ARGV[1])
if not text then return 0 end
local now = redis.call('HGET', KEYS[3], ARGV[1])
if now == 'cancelled' then return ARGV[2] == now and 1 or -1 end

redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
if ARGV[2] == 'cancelled' then
  redis.call('HSET', KEYS[1], cjson.decode(text).reservation, 'refused 410')
end
return 1
