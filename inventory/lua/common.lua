-- Shared head of every bucket script; the loader puts it in front of them.
--
-- KEYS[1] head      hash: plan, fence and counters of the bucket
-- KEYS[2] ledger    hash: order id -> record
-- KEYS[3] buyers    hash: user -> units reserved or confirmed
-- KEYS[4] holds     list of order ids, their deadlines never decreasing
-- KEYS[5] attempts  list of "<until> <attempt> <order id>", until never decreasing
-- ARGV[1] '1' to compare the server's run_id, '0' in memory mode
-- ARGV[2] the generation that the caller believes in
--
-- Every answer begins {code, run, seq, …}: the run_id that the bucket is armed
-- under and its count of changes. -1 no bucket here, -5 stale (then 'run' or
-- 'gen' follows).
--
-- A record is "<state> <quantity> <reserved> <deadline> <attempt> <until>
-- <stuck> <length of user> " then the user and the shop's order as they are.
-- Times are whole milliseconds of Redis TIME; until 0 means no attempt is open.
-- Lua's tostring would round big numbers, so every number is written by int().

local HEAD, LEDGER, BUYERS, HOLDS, ATTEMPTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local BOUND = 256 -- most list entries that one script looks at

local function int(n) return string.format('%.0f', n) end

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function server_run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end

-- whole(text, low): the number, or nil unless it is an integer from low up.
local function whole(text, low)
  local n = tonumber(text)
  if n and string.match(text, '^%d+$') and n >= low and n < 9007199254740992 then return n end
end

local function parse(text)
  if not text then return nil end
  local state, q, at, due, n, till, stuck, len, rest =
    string.match(text, '^(%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (.*)$')
  if not state then return nil end
  len = tonumber(len)
  return {
    text = text, state = state, quantity = tonumber(q), at = tonumber(at), due = tonumber(due),
    attempt = tonumber(n), till = tonumber(till), stuck = stuck,
    user = string.sub(rest, 1, len), order = string.sub(rest, len + 1),
  }
end

local function pack(r)
  return r.state .. ' ' .. int(r.quantity) .. ' ' .. int(r.at) .. ' ' .. int(r.due) .. ' ' .. int(r.attempt) .. ' '
    .. int(r.till) .. ' ' .. r.stuck .. ' ' .. int(#r.user) .. ' ' .. r.user .. r.order
end

-- open() reads the bucket and checks the fence. It returns the bucket, or nil
-- and the answer to give. Every key is read once here, so that a key of the
-- wrong type stops the script before its first write.
local function open()
  local v = redis.call('HMGET', HEAD, 'gen', 'void', 'run', 'seq', 'free', 'reserved', 'confirmed', 'expiry',
    'last_hold', 'last_ask', 'desired', 'start', 'end', 'limit', 'max', 'hold', 'item')
  if not v[1] and redis.call('EXISTS', HEAD) == 0 then return nil, {-1, '', 0} end
  local run, seq = v[3] or '', tonumber(v[4]) or 0
  if ARGV[1] == '1' and server_run() ~= run then return nil, {-5, run, seq, 'run'} end
  if v[1] ~= ARGV[2] or v[2] ~= '0' then return nil, {-5, run, seq, 'gen'} end
  redis.call('HLEN', LEDGER)
  redis.call('HLEN', BUYERS)
  redis.call('LLEN', HOLDS)
  redis.call('LLEN', ATTEMPTS)
  return {
    now = now_ms(), run = run, seq = seq, free = tonumber(v[5]), reserved = tonumber(v[6]), confirmed = tonumber(v[7]),
    expiry = v[8], last_hold = tonumber(v[9]), last_ask = tonumber(v[10]), desired = v[11],
    start = tonumber(v[12]), stop = tonumber(v[13]), limit = tonumber(v[14]), max = tonumber(v[15]),
    hold = tonumber(v[16]), item = v[17],
  }
end

-- save(b, id, r) writes a record; each is one change of the ledger.
local function save(b, id, r)
  r.text = pack(r)
  redis.call('HSET', LEDGER, id, r.text)
  b.seq, b.changed = b.seq + 1, true
end

-- reply(b, code, …) writes the counters, all in one command and once per
-- script, and makes the answer. Every path out of a script goes through it.
-- The plan bounds all of them below 2^53, where a Lua number is exact.
local function reply(b, code, ...)
  if b.changed then
    redis.call('HSET', HEAD, 'seq', int(b.seq), 'free', int(b.free), 'reserved', int(b.reserved),
      'confirmed', int(b.confirmed), 'last_hold', int(b.last_hold), 'last_ask', int(b.last_ask))
  end
  return {code, b.run, b.seq, ...}
end

-- buyer(r, n) moves the units that count to the buyer's limit.
local function buyer(r, n)
  if r.user == '' then return end
  if redis.call('HINCRBY', BUYERS, r.user, int(n)) <= 0 then redis.call('HDEL', BUYERS, r.user) end
end

-- close(b, id, r, state, from) ends a reservation that holds units: they move
-- from that counter to free and no longer count to the buyer.
local function close(b, id, r, state, from)
  r.state, r.till, r.stuck = state, 0, '0'
  save(b, id, r)
  b[from] = b[from] - r.quantity
  b.free = b.free + r.quantity
  buyer(r, -r.quantity)
end

-- may_free(b, r): a due hold is freed by scripts, except on an `ask` sale while
-- its attempt is unsettled: then only the shop's word frees it.
local function may_free(b, r)
  return r.state == 'r' and r.due <= b.now and (b.expiry == 'free' or r.till == 0)
end

-- free_due(b, want) frees due holds, oldest first, until `want` units are free.
-- It returns the deadline at the head of the list (0 when the list is empty)
-- and whether the bound stopped it. What it may not free leaves the list: its
-- attempt stands in the attempts list, and there it is asked about.
local function free_due(b, want)
  for _ = 1, BOUND do
    if b.free >= want then return 0, false end
    local id = redis.call('LINDEX', HOLDS, 0)
    if not id then return 0, false end
    local r = parse(redis.call('HGET', LEDGER, id))
    if r and r.state == 'r' and r.due > b.now then return r.due, false end
    if r and may_free(b, r) then close(b, id, r, 'e', 'reserved') end
    redis.call('LPOP', HOLDS)
  end
  local id = redis.call('LINDEX', HOLDS, 0)
  local r = id and parse(redis.call('HGET', LEDGER, id))
  return r and r.due or 0, b.free < want and id and true or false
end

-- watch(b, id, r) puts an open attempt in line, to be asked about if it runs out.
local function watch(b, id, r, till)
  b.last_ask, b.changed = math.max(till, b.last_ask), true
  redis.call('RPUSH', ATTEMPTS, int(b.last_ask) .. ' ' .. int(r.attempt) .. ' ' .. id)
end

