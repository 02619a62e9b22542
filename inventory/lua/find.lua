-- find: reads one record. It changes nothing, but answers only behind the fence.
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order
-- returns {code, run, seq, epoch, record}: 0 found, 1 unknown
-- caller: Store.Find

local b, stale = open()
if not b then return stale end
local text = redis.call('HGET', LEDGER, ARGV[4])
return reply(b, text and 0 or 1, text or '')
