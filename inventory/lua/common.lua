-- Shared head of every bucket script; the loader puts it in front of them.
--
-- KEYS[1] head      hash: plan, fence and counters of the bucket
-- KEYS[2] ledger    hash: order -> record
-- KEYS[3] buyers    hash: user -> units reserved or confirmed
-- KEYS[4] holds     list of orders, their deadlines never decreasing
-- KEYS[5] extended  the same, of holds that were extended
-- KEYS[6] attempts  list of "<until> <order> <attempt>", until never decreasing,
--                   of attempts that are not the first or were asked about
-- KEYS[7] lent      hash: loan -> "<units> <to> <when>"
-- KEYS[8] accepted  hash: loan -> "<units> <from> <when>"
-- KEYS[9] changes   list of orders that changed while an audit listens, see audit.lua
-- ARGV[1] '1' to compare the server's run_id, '0' in memory mode
-- ARGV[2] the generation that the caller believes in
-- ARGV[3] '1' to write something in any case, so that WAIT covers what the answer tells
--
-- Every answer begins {code, run, seq, epoch, …}: the run_id that the bucket is
-- armed under, its count of changes, and the Redis time from which its times
-- count. -1 no bucket here, -5 stale (then 'run' or 'gen' follows).
--
-- An order stands here without the tag of its sale. A record is "<state><flags>
-- <quantity> <reserved> <deadline> <attempt> <until> <length of user> <length
-- of kind> " then user, kind and the shop's order as they are. Flags: s stuck,
-- p in payment. Times are whole milliseconds after the epoch; until 0 means that
-- no attempt is open. Lua's tostring would round big numbers: int() writes them.
-- A batch of 128 orders keeps this Redis busy mostly by Lua itself, so what
-- repeats within one is computed once, and records are parsed when needed.
--
-- A first attempt needs no entry of its own: its order stands in holds, and the
-- head's field `asked` says how many entries there were looked at for that.
--
-- No key is ever empty, or a slot that moves to another server could not be
-- used meanwhile: each hash has a field '', and the first entry of each list is
-- one that was worked off before.
--
-- A script reads, then decides in these tables, then writes all of it in
-- reply(): ledger first, counters last, nothing in between can fail.

local HEAD, LEDGER, BUYERS, HOLDS, EXTENDED, ATTEMPTS, LENT, ACCEPTED, CHANGES =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local BOUND = 256 -- most list entries that one script looks at
local MOST_CHANGES = 200000 -- then an audit has to begin again

-- int(n): a whole number below 2^53 as text. %d is far cheaper than %.0f, and
-- lengths and units of a batch repeat. Only small numbers are kept: miniredis
-- would make an array up to the largest key.
local small, format = {}, string.format
local function int(n)
  local text = small[n]
  if text then return text end
  text = format('%d', n)
  if n >= 0 and n <= 256 then small[n] = text end
  return text
end

local function time_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function server_run()
  local info = redis.call('INFO', 'server')
  local _, at = string.find(info, 'run_id:', 1, true) -- a pattern would be tried at every letter
  return at and string.match(info, '^%x+', at + 1) or ''
end

-- whole(text, low): the number, or nil unless it is an integer from low up.
local function whole(text, low)
  local n = tonumber(text)
  if n and string.match(text, '^%d+$') and n >= low and n < 9007199254740992 then return n end
end

-- parse(text): the record; {bad = true} when it cannot be read; nil for none.
local function parse(text)
  if not text then return nil end
  local state, flags, q, at, due, n, till, len, klen, rest =
    string.match(text, '^(%a)(%a*) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  if not state then return {bad = true, text = text} end
  len, klen = tonumber(len), tonumber(klen)
  return {
    text = text, state = state, quantity = tonumber(q), at = tonumber(at), due = tonumber(due),
    attempt = tonumber(n), till = tonumber(till),
    stuck = string.find(flags, 's', 1, true) and 's' or '', pay = string.find(flags, 'p', 1, true) and 'p' or '',
    user = string.sub(rest, 1, len), kind = string.sub(rest, len + 1, len + klen), order = string.sub(rest, len + klen + 1),
  }
end

local function pack(r)
  -- Strings are joined, since %s would end them at a zero byte.
  return r.state .. r.stuck .. r.pay .. format(' %d %d %d %d %d %d %d ', r.quantity, r.at, r.due,
    r.attempt, r.till, #r.user, #r.kind) .. r.user .. r.kind .. r.order
end

local NUMBERS = {'seq', 'epoch', 'clock', 'free', 'reserved', 'confirmed', 'lent_in', 'lent_out', 'last_hold', 'last_ext',
  'last_ask', 'asked', 'settle', 'start', 'end', 'limit', 'max', 'hold'}

-- numbers(h): the numbers of a head; nil and the field that is none, or that lacks.
local function numbers(h)
  local n = {}
  for _, name in ipairs({'run', 'void', 'expiry', 'desired', 'item'}) do
    if not h[name] then return nil, name end
  end
  for i = 1, #NUMBERS do
    local name = NUMBERS[i]
    local value = tonumber(h[name])
    if not value or value % 1 ~= 0 then return nil, name end
    n[name] = value
  end
  return n
end

local function read_head()
  local h, all = {}, redis.call('HGETALL', HEAD)
  for i = 1, #all, 2 do h[all[i]] = all[i + 1] end
  return h
end

-- open() reads the bucket and checks the fence. It returns the bucket, or nil
-- and the answer to give. Every key and every number of the head is looked at
-- once here, so that a broken bucket stops the script before its first write.
local function open()
  local h = read_head()
  if not h.gen then return nil, {-1, '', 0, 0} end
  local n, broken = numbers(h)
  if not n then return nil, redis.error_reply('BROKEN bucket: ' .. broken .. ' of ' .. HEAD .. ' is missing or no whole number') end
  local run, seq, epoch = h.run, n.seq, n.epoch
  if ARGV[1] == '1' and server_run() ~= run then return nil, {-5, run, seq, epoch, 'run'} end
  if h.gen ~= ARGV[2] or h.void ~= '0' then return nil, {-5, run, seq, epoch, 'gen'} end
  redis.call('HLEN', LEDGER)
  redis.call('HLEN', BUYERS)
  redis.call('LLEN', HOLDS)
  redis.call('LLEN', EXTENDED)
  redis.call('LLEN', ATTEMPTS)
  redis.call('HLEN', LENT)
  redis.call('HLEN', ACCEPTED)
  local heard = redis.call('LLEN', CHANGES)
  local time = time_ms() - epoch
  return {
    -- The server's clock may step back; what was over stays over.
    now = math.max(time, n.clock), run = run, seq = seq, epoch = epoch,
    free = n.free, reserved = n.reserved, confirmed = n.confirmed,
    lent_in = n.lent_in, lent_out = n.lent_out, expiry = h.expiry,
    last_hold = n.last_hold, last_ext = n.last_ext, last_ask = n.last_ask, asked = n.asked,
    -- Other replicas are still looking at what this run of the server has left.
    -- No wait is longer than five seconds, wherever the clock steps.
    settling = time < n.settle and n.settle - time <= 5000,
    desired = h.desired, start = n.start, stop = n['end'], limit = n.limit, max = n.max, hold = n.hold, item = h.item,
    audit = tonumber(h.audit) or 0, heard = heard,
    records = {}, units = {}, fields = {}, users = {}, looked = 0, lines = {}, overdue = {},
  }
end

-- load(b, orders, users) reads many at once; get and held do it one by one.
-- b.records[order] is false for none, a text until get parses it, then a record.
local function load(b, orders, users)
  local records, units = b.records, b.units
  local found = redis.call('HMGET', LEDGER, unpack(orders))
  for i = 1, #orders do records[orders[i]] = found[i] end
  found = redis.call('HMGET', BUYERS, unpack(users))
  for i = 1, #users do units[users[i]] = found[i] and tonumber(found[i]) or 0 end
end

local function get(b, id)
  local r = b.records[id]
  if r == nil then r = redis.call('HGET', LEDGER, id) end
  if type(r) == 'string' then r = parse(r) end
  b.records[id] = r
  return r or nil
end

-- held(b, user): units that count to the buyer's limit.
local function held(b, user)
  if user == '' then return 0 end
  if not b.units[user] then b.units[user] = tonumber(redis.call('HGET', BUYERS, user) or '0') end
  return b.units[user]
end

local function count(b, user, n)
  if user == '' then return end
  b.units[user] = held(b, user) + n
  b.users[user] = true
end

-- put_text(b, id, text) is one change of the ledger; of two of one order the
-- later one stays.
local function put_text(b, id, text)
  local fields = b.fields
  local n = #fields
  fields[n + 1], fields[n + 2] = id, text
  b.seq, b.changed = b.seq + 1, true
end

local function put(b, id, r)
  r.text = pack(r)
  b.records[id] = r
  put_text(b, id, r.text)
end

-- push(b, key, entry) appends to a list when the script ends.
local function push(b, key, entry)
  local line = b.lines[key]
  if not line then
    line = {}
    b.lines[key], b.changed = line, true
  end
  line[#line + 1] = entry
end

-- close(b, id, r, state, from) ends a reservation that holds units: they move
-- from that counter to free and no longer count to the buyer.
local function close(b, id, r, state, from)
  r.state, r.till, r.stuck = state, 0, ''
  put(b, id, r)
  b[from] = b[from] - r.quantity
  b.free = b.free + r.quantity
  count(b, r.user, -r.quantity)
end

-- may_free(b, r): a due hold is freed by scripts, except on an `ask` sale while
-- its attempt is unsettled: then only the shop's word frees it.
local function may_free(b, r)
  return r.state == 'r' and r.due <= b.now and (b.expiry == 'free' or r.till == 0)
end

-- peek(b, key): the first entry of a list that this script has not worked off.
local function peek(b, key)
  local p = b[key]
  if not p then
    p = {off = 0, got = {}, size = 1}
    b[key] = p
  end
  local at = p.off + 1
  if not p.got[at] and not p.all then
    for _, entry in ipairs(redis.call('LRANGE', key, at, at + p.size - 1)) do p.got[#p.got + 1] = entry end
    p.all = #p.got < at + p.size - 1
    p.size = math.min(p.size * 16, BOUND)
  end
  return p.got[at]
end

local function pop(b, key)
  b[key].off = b[key].off + 1
  b.looked, b.changed = b.looked + 1, true
end

-- watch(b, id, r, till) puts an open attempt in line, to be asked about if it runs out.
local function watch(b, id, r, till)
  b.last_ask = math.max(b.last_ask, till)
  push(b, ATTEMPTS, int(b.last_ask) .. ' ' .. id .. ' ' .. int(r.attempt))
end

-- first_open(r): its first attempt is not settled.
local function first_open(r)
  return r and r.state == 'r' and r.attempt == 1 and r.till ~= 0
end

-- left_holds(b, id, r): an order that nobody was asked about leaves the holds,
-- and is asked about all the same; first of all if its attempt ran out.
local function left_holds(b, id, r)
  if r.till > b.now then return watch(b, id, r, r.till) end
  b.overdue[#b.overdue + 1] = int(r.till) .. ' ' .. id .. ' 1'
end

-- free_line(b, key, want) works off one list of holds, oldest first, until
-- `want` units are free, its head is not due or the bound is reached. What it
-- may not free leaves the list: its attempt stands in the attempts list from
-- then on, and is asked about. It returns the deadline of a head that is not due.
local function free_line(b, key, want)
  while b.free < want and b.looked < BOUND do
    local id = peek(b, key)
    if not id then return 0 end
    local r = get(b, id)
    local here = r and not r.bad and r.state == 'r' and (key == EXTENDED or r.pay == '')
    if here and r.due > b.now then return r.due end
    if here and may_free(b, r) then close(b, id, r, 'e', 'reserved') end
    if key == HOLDS and b[key].off >= b.asked and first_open(r) then left_holds(b, id, r) end
    pop(b, key)
  end
  return 0
end

-- free_due(b, want) frees due holds until `want` units are free. It returns the
-- earliest deadline that it saw (0 = none) and whether due ones may remain.
local function free_due(b, want)
  local first = free_line(b, EXTENDED, want)
  local second = free_line(b, HOLDS, want)
  if first == 0 or (second ~= 0 and second < first) then first = second end
  return first, b.free < want and b.looked >= BOUND
end

-- note(b, book, loan, units, other) writes a loan into a book when the script ends.
local function note(b, book, loan, units, other)
  b.loan = {book = book, id = loan, text = int(units) .. ' ' .. other .. ' ' .. int(b.now)}
  b.seq, b.changed = b.seq + 1, true
end

-- write(verb, key, values) sends many values in calls that unpack can take.
local function write(verb, key, values)
  for i = 1, #values, 1000 do
    redis.call(verb, key, unpack(values, i, math.min(i + 999, #values)))
  end
end

-- tell_audit(b) notes which orders change, while an audit listens.
local function tell_audit(b)
  if b.audit <= b.now then return end
  if b.heard + #b.fields > MOST_CHANGES then return redis.call('HSET', HEAD, 'audit', '0') end
  local orders = {}
  for i = 1, #b.fields, 2 do orders[#orders + 1] = b.fields[i] end
  write('RPUSH', CHANGES, orders)
end

local function flush(b)
  if b.loan then redis.call('HSET', b.loan.book, b.loan.id, b.loan.text) end
  write('HSET', LEDGER, b.fields)
  tell_audit(b)
  local sets, dels = {}, {}
  for user in pairs(b.users) do
    local units, n = b.units[user], #sets
    if units > 0 then
      sets[n + 1], sets[n + 2] = user, int(units)
    else
      dels[#dels + 1] = user
    end
  end
  write('HSET', BUYERS, sets)
  write('HDEL', BUYERS, dels)
  for _, key in ipairs({HOLDS, EXTENDED, ATTEMPTS}) do
    write('RPUSH', key, b.lines[key] or {})
    if b[key] and b[key].off > 0 then redis.call('LTRIM', key, b[key].off, -1) end
  end
  if #b.overdue > 0 then -- in front of what is in line; its first entry was worked off
    if redis.call('LLEN', ATTEMPTS) > 0 then redis.call('LSET', ATTEMPTS, 0, '') end
    b.overdue[#b.overdue + 1] = ''
    redis.call('LPUSH', ATTEMPTS, unpack(b.overdue)) -- at most BOUND
  end
  if b[HOLDS] then b.asked = math.max(b.asked - b[HOLDS].off, 0) end
  redis.call('HSET', HEAD, 'seq', int(b.seq), 'free', int(b.free), 'reserved', int(b.reserved),
    'confirmed', int(b.confirmed), 'last_hold', int(b.last_hold), 'last_ext', int(b.last_ext),
    'last_ask', int(b.last_ask), 'asked', int(b.asked), 'lent_in', int(b.lent_in), 'lent_out', int(b.lent_out), 'clock', int(b.now))
  if b.forget then redis.call('LTRIM', CHANGES, 0, 0) end
end

-- reply(b, code, …) writes what changed and makes the answer. Every path out of
-- a script that opened the bucket goes through it. The plan bounds all numbers
-- below 2^53, where a Lua number is exact.
local function reply(b, code, ...)
  if b.changed then
    flush(b)
  elseif ARGV[3] == '1' then
    redis.call('HSET', HEAD, 'clock', int(b.now))
  end
  return {code, b.run, b.seq, b.epoch, ...}
end

