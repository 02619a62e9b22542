-- find: reads one record. It writes nothing, but answers only behind the fence.
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id
-- returns {code, run, seq, record}: 0 found, 1 unknown id
-- caller: Store.Find

local b, stale = open()
if not b then return stale end
local text = redis.call('HGET', LEDGER, ARGV[3])
return reply(b, text and 0 or 1, text or '')
