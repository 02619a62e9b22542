-- release: gives the units back, whole and once. An unknown order leaves a
-- tombstone, so that a reserve that comes later finds "cancelled".
-- KEYS, ARGV[1..3]: see common.lua
-- ARGV[4] order  [5] attempt, 0 = by the shop or an operator
-- returns {code, run, seq, epoch, record}: 0 done or done before (read the
--   state), 2 not allowed, 3 another attempt has been granted since
-- caller: Store.Release

local id, attempt = ARGV[4], whole(ARGV[5], 0)
if not attempt or #id < 1 or #id > 64 then return redis.error_reply('INVALID order or attempt') end
local b, stale = open()
if not b then return stale end
local r = get(b, id)
if r and r.bad then return redis.error_reply('BROKEN bucket: ledger record of ' .. id .. ' cannot be read') end

local code = 0
if not r then
  r = {state = 'x', quantity = 0, at = b.now, due = b.now, attempt = 0, till = 0, stuck = '', pay = '', user = '', kind = '', order = ''}
  put(b, id, r)
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
