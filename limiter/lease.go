package limiter

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	// leaseLife is how long a grant may be spent.
	leaseLife = 45 * time.Millisecond
	// While the limit has nothing more a replica comes again after leasePause and at
	// most leaseJitter more: by chance, or one could always come right behind another.
	leasePause, leaseJitter = leaseLife, 10 * time.Millisecond
	// leaseSaved is what of a rate may be saved beside its burst, since nobody comes
	// for it at once. So a limit that all replicas share lets through, in any time t,
	// at most burst + rate × (t + leaseSaved + leaseLife): what 100 ms bring more.
	leaseSaved = leasePause + leaseJitter
	// A replica runs so many scripts a second for one key, after a rest a few more.
	leaseCalls, leaseCallsBurst = 20.0, 5
	// leaseTimeout is the longest wait for the answer of one script.
	leaseTimeout = 200 * time.Millisecond
	// leaseProbe is how often a Redis that is away is asked again.
	leaseProbe = 250 * time.Millisecond
)

// lease is a replica's part of a rate that all replicas share: events that were
// granted to it and may be spent for a while. The lock of its shard guards it.
type lease struct {
	left   int           // granted and not spent
	until  time.Time     // when they can be spent no more
	closed time.Time     // before that nothing is granted
	flight chan struct{} // a script is on its way; closed when it is back
	calls  *rate.Limiter // paces the scripts

	sent   time.Time // when the last script was
	taken  int       // events allowed since then
	missed int       // events asked for since then and not had
	size   float64   // events of one life, smoothed

	away  bool          // the last script was not answered
	probe time.Time     // when the next one is worth a try
	local *rate.Limiter // this replica's part, spent while Redis is away
}

func newLease() *lease {
	return &lease{calls: rate.NewLimiter(rate.Limit(leaseCalls), leaseCallsBurst)}
}

// wait is how long until this key may ask; short: nobody knows before a script ran.
func (l *lease) wait(at time.Time) (wait time.Duration, short bool) {
	switch {
	case l.away:
		return tokenWait(l.local, at), false
	case l.left > 0 && at.Before(l.until):
		return 0, false
	case at.Before(l.closed):
		return l.closed.Sub(at), false
	}
	return 0, true
}

func (l *lease) spend(at time.Time) {
	l.taken++
	if l.away {
		l.local.AllowN(at, 1)
		return
	}
	l.left--
}

// rests: forgetting it changes nothing for its key, here.
func (l *lease) rests(at time.Time) bool {
	return l.flight == nil && !l.away && (l.left == 0 || !at.Before(l.until)) && !at.Before(l.closed)
}

// want is how many events to ask for: what a life of them took of late, and at
// least what was asked for in vain since the last script.
func (l *lease) want(at time.Time, most int) int {
	lives := max(float64(at.Sub(l.sent))/float64(leaseLife), 1)
	l.size = (l.size + float64(l.taken+l.missed)/lives) / 2
	return min(max(int(math.Ceil(l.size)), l.missed, 1), most)
}

// unspent are the events that can be given back.
func (l *lease) unspent() int {
	n := l.left
	l.left = 0
	return n
}

// landed takes the answer of a script in.
func (l *lease) landed(at time.Time, asked, granted int, wait time.Duration) {
	l.away = false
	l.left, l.until = granted, at.Add(leaseLife)
	if granted < asked {
		l.closed = at.Add(max(wait, leasePause-at.Sub(l.sent)) + rand.N(leaseJitter))
	}
}

// lost: the script was not answered. What it may have granted is spent by nobody.
func (l *lease) lost(at time.Time, pol *policy, replicas int) {
	l.away, l.probe = true, at.Add(leaseProbe)
	part := pol.limit / rate.Limit(max(replicas, 1))
	burst := max(pol.Burst/max(replicas, 1), 1)
	if l.local == nil {
		l.local = rate.NewLimiter(part, burst)
		return
	}
	l.local.SetLimitAt(at, part)
	l.local.SetBurstAt(at, burst)
}

// saved are the most events of which Redis lets the time be saved.
func (p *policy) saved() float64 {
	return float64(p.Burst) + float64(p.limit)*leaseSaved.Seconds()
}

// fetch has a script run for the claim's key, or joins the one on its way. The
// shard is locked.
func (s *Stack) fetch(c *claim) chan struct{} {
	l := c.e.lease
	if l.flight == nil {
		l.flight = make(chan struct{})
		sh, e, key := c.sh, c.e, strings.Clone(c.key)
		s.flights.Go(func() { s.fly(sh, e, key) })
	}
	return l.flight
}

// probe asks a Redis that is away again, once in a while. The shard is locked.
func (c *claim) probe(s *Stack) {
	if c.e == nil || c.e.lease == nil {
		return
	}
	if l := c.e.lease; l.away && l.flight == nil && !c.at.Before(l.probe) {
		s.fetch(c)
	}
}

// fly runs one script, when the pace allows it.
func (s *Stack) fly(sh *shard, e *entry, key string) {
	l := e.lease
	sh.mu.Lock()
	at := sh.tick(s.now())
	pause := l.calls.ReserveN(at, 1).DelayFrom(at)
	sh.mu.Unlock()
	if pause > 0 {
		time.Sleep(pause)
	}

	sh.mu.Lock()
	sh.renew(e, sh.pol.of(key))
	pol, at := e.pol, sh.tick(s.now())
	ask := grantAsk{back: l.unspent() - int(e.owed), pol: pol}
	if e.owed > 0 {
		ask.ago, e.owed = time.Duration(at.UnixNano()-e.rested), 0
	}
	ask.n = l.want(at, int(pol.saved())+1)
	l.sent, l.taken, l.missed = at, 0, 0
	sh.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout)
	defer cancel()
	granted, wait, err := s.cluster.ask(ctx, pol.Name, key, ask)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	at = sh.tick(s.now())
	was := l.away
	if err != nil {
		l.lost(at, pol, s.cluster.Replicas())
	} else {
		l.landed(at, ask.n, granted, wait)
	}
	if was != l.away {
		s.cluster.tell(pol.Name, l.away, err)
	}
	close(l.flight)
	l.flight = nil
}
