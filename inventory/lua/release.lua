-- release: gives the units back, whole and once. An unknown id leaves a
-- tombstone, so that a reserve that comes later finds "cancelled".
-- KEYS, ARGV[1..2]: see common.lua
-- ARGV[3] order id  [4] attempt, 0 = by the shop or an operator
-- returns {code, run, seq, record}: 0 done or done before (read the state),
--   2 not allowed, 3 another attempt has been granted since
-- caller: Store.Release

local id, attempt = ARGV[3], whole(ARGV[4], 0)
if not attempt or #id < 1 or #id > 64 then return redis.error_reply('INVALID id or attempt') end
local b, stale = open()
if not b then return stale end
local text = redis.call('HGET', LEDGER, id)
local r = parse(text)
if text and not r then return redis.error_reply('INVALID ledger record of ' .. id) end

local code = 0
if not r then
  r = {state = 'x', quantity = 0, at = b.now, due = b.now, attempt = 0, till = 0, stuck = '0', user = '', order = ''}
  save(b, id, r)
elseif r.state == 'r' then
  if attempt > 0 and attempt ~= r.attempt then
    code = 3
  else
    close(b, id, r, 'l', 'reserved')
  end
elseif r.state == 'c' and attempt == 0 then
  close(b, id, r, 't', 'confirmed')
elseif r.state ~= 'l' and r.state ~= 't' and r.state ~= 'x' then
  code = 2
end
return reply(b, code, r.text)
