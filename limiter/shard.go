package limiter

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// stepBack tells a clock that was set back from readings that arrive out of
// order: up to here a shard waits for the clock to catch up, beyond it goes on
// from the new reading.
const stepBack = time.Second

// evictTries bounds the search for an entry that may be forgotten. An entry that
// may not is moved to the young end, so the search walks through the shard from
// one new key to the next.
const evictTries = 8

// shard is a part of a layer's keys under one lock. Everything in it is guarded
// by mu, except that slots are given back without it.
type shard struct {
	mu      sync.Mutex
	pol     *policy
	changed time.Time // when pol came, by clock
	seen    time.Time // the latest reading of the Stack's clock
	clock   time.Time // the shard's own time: it stands or goes forward
	keys    *simplelru.LRU[string, *entry]
	room    int // most keys
	shards  int // of the layer, to share Size out
	// overflow holds the buckets of keys that found no room, by hash; made when
	// first needed. A power of two.
	overflow []*entry
	stats    LayerStats
	top      tally
}

// entry is the state of one key, or of one overflow bucket.
type entry struct {
	lim    *rate.Limiter // of this replica; nil without Rate, and where only a lease counts
	lease  *lease        // of a rate that all replicas share; a bucket of overflow has none
	rested int64         // with Quiet: since when it has not been allowed, ns of the shard's time
	owed   int32         // events that were allowed quietly and that Redis has not heard of
	bucket bool          // of overflow
	pol    *policy       // that lim follows
	busy   atomic.Int32  // slots held
}

// claim is one layer's part of a Take, its shard locked.
type claim struct {
	sh     *shard
	key    string
	hash   uint64
	bucket int
	at     time.Time     // the shard's time
	e      *entry        // nil: the key is not known
	wait   time.Duration // 0 = may ask
	short  bool          // of a lease: Redis must be asked before anybody knows
	quiet  bool          // it has rested and needs no lease
}

func newShard(pol *policy, shards int, now time.Time) *shard {
	// Room is made by hand, see makeRoom; the cache itself never evicts.
	keys, err := simplelru.NewLRU[string, *entry](math.MaxInt, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &shard{
		pol: pol, changed: now, seen: now, clock: now,
		keys: keys, shards: shards, room: max(1, pol.Size/shards),
		overflow: make([]*entry, overflowTotal/shards),
	}
}

// tick takes a reading of the clock and returns the shard's own time, which
// never goes back: an older reading would make rate.Limiter mint tokens.
func (sh *shard) tick(now time.Time) time.Time {
	if d := now.Sub(sh.seen); d > 0 {
		sh.clock = sh.clock.Add(d)
		sh.seen = now
	} else if d < -stepBack {
		sh.seen = now
	}
	return sh.clock
}

func (sh *shard) find(key string) *entry {
	e, ok := sh.keys.Get(key)
	if !ok {
		return nil
	}
	sh.renew(e, sh.pol.of(key))
	return e
}

// wait tells how long until the claim could be met, 0 if it can be now. A key
// that is not known is judged by its overflow bucket: a bucket in use may hold
// what this very key has spent, one never used stands for a full budget.
func (sh *shard) wait(c *claim) time.Duration {
	e := c.e
	if e == nil {
		if e = sh.overflow[c.bucket]; e == nil {
			return 0
		}
		sh.renew(e, sh.pol)
	}
	if n := e.pol.Concurrency; n > 0 && int(e.busy.Load()) >= n {
		return busyRetry
	}
	if e.pol.Quiet > 0 && !e.bucket && e.lim != nil {
		if wait := tokenWait(e.lim, c.at); wait > 0 {
			return wait
		}
		if c.quiet = e.quiet(c.at); c.quiet {
			e.lease = nil
			return 0
		}
		if e.lease == nil {
			e.lease = newLease()
		}
	}
	if e.lease != nil {
		wait, short := e.lease.wait(c.at)
		if wait > 0 || short {
			e.lease.missed++
		}
		c.short = short
		return wait
	}
	if e.lim == nil {
		return 0
	}
	return tokenWait(e.lim, c.at)
}

// quiet: the key has rested, and nothing of a lease is left that would be lost.
func (e *entry) quiet(at time.Time) bool {
	return at.UnixNano()-e.rested >= int64(e.pol.Quiet) && (e.lease == nil || e.lease.rests(at))
}

// tokenWait is how long until lim has a token, 0 if it has one.
func tokenWait(lim *rate.Limiter, at time.Time) time.Duration {
	missing := 1 - lim.TokensAt(at)
	if missing <= 0 {
		return 0
	}
	// The same sum as in AllowN, which grants what is less than 1 ns away.
	d := time.Duration(missing / float64(lim.Limit()) * float64(time.Second))
	if d <= 0 {
		return 0
	}
	return d + 1
}

// spend takes one event and one slot from a claim that was allowed. A shadow
// layer that would have refused spends nothing.
func (c *claim) spend(d *Decision) {
	if c.wait > 0 || c.short {
		return
	}
	sh := c.sh
	e := c.e
	if e == nil {
		e = sh.admit(c)
	}
	if e.lim != nil {
		e.lim.AllowN(c.at, 1)
	}
	switch {
	case e.lease != nil:
		e.lease.spend(c.at)
		e.rested = c.at.UnixNano()
	case e.pol.Quiet > 0:
		e.owed++
		e.rested = c.at.UnixNano()
	}
	if e.pol.Concurrency > 0 {
		e.busy.Add(1)
		d.held[d.holds] = &e.busy
		d.holds++
	}
	sh.stats.Allowed++
}

// admit remembers a new key, or lends it its overflow bucket when there is no
// room. Nobody gains by passing through a bucket: a key that moves out of one
// takes only the tokens that the bucket had left, and it does not move while
// slots of the bucket are held.
func (sh *shard) admit(c *claim) *entry {
	b := sh.overflow[c.bucket]
	if (b == nil || b.busy.Load() == 0) && sh.makeRoom(c.at) {
		e := newEntry(sh.pol, false)
		if b != nil && b.lim != nil && e.lim != nil {
			spent := math.Ceil(float64(sh.pol.Burst) - b.lim.TokensAt(c.at))
			e.lim.AllowN(c.at, min(int(spent), sh.pol.Burst-1))
		}
		sh.keys.Add(strings.Clone(c.key), e)
		return e
	}
	sh.stats.Overflowed++
	if b == nil {
		b = newEntry(sh.pol, true)
		sh.overflow[c.bucket] = b
	}
	return b
}

// makeRoom reports whether one more key may be remembered. It forgets only what
// has refilled and holds no slot: forgetting that changes nothing for its owner.
func (sh *shard) makeRoom(at time.Time) bool {
	if sh.keys.Len() < sh.room {
		return true
	}
	for range min(evictTries, sh.keys.Len()) {
		key, e, _ := sh.keys.GetOldest()
		sh.renew(e, sh.pol.of(key))
		if e.busy.Load() == 0 && (e.lim == nil || e.lim.TokensAt(at) >= float64(e.pol.Burst)) && (e.lease == nil || e.lease.rests(at)) &&
			(e.pol.Quiet == 0 || e.quiet(at)) {
			sh.keys.Remove(key)
			sh.stats.Evicted++
			// After Update made the room smaller this may not be enough yet.
			if sh.keys.Len() < sh.room {
				return true
			}
			continue
		}
		sh.keys.Get(key)
	}
	return false
}

func newEntry(pol *policy, bucket bool) *entry {
	e := &entry{pol: pol, bucket: bucket}
	switch {
	case pol.limit == 0:
	case pol.leased() && !bucket:
		e.lease = newLease()
	default:
		e.lim = rate.NewLimiter(pol.limit, pol.Burst)
	}
	return e
}

// renew brings an entry under the policy that came since it was last used, from
// the moment on at which it came.
func (sh *shard) renew(e *entry, pol *policy) {
	if e.pol == pol {
		return
	}
	e.pol = pol
	leased := pol.leased() && !e.bucket
	switch {
	case !leased:
		e.lease = nil // with Quiet it comes when it is needed
	case e.lease == nil:
		e.lease = newLease()
	default: // what was granted under the old policy is given back by the next script
		e.lease.until, e.lease.closed = time.Time{}, time.Time{}
	}
	switch {
	case leased, pol.limit == 0:
		e.lim = nil
	case e.lim == nil:
		e.lim = rate.NewLimiter(pol.limit, pol.Burst)
	default:
		e.lim.SetLimitAt(sh.changed, pol.limit)
		e.lim.SetBurstAt(sh.changed, pol.Burst)
	}
}
