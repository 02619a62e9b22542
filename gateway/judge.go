package gateway

import (
	"context"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"weir/blacklist"
)

// JudgeConfig says when offences become a ban.
type JudgeConfig struct {
	Enabled  bool
	Window   time.Duration // offences are counted per window
	Offences int           // so many in one window lead to a ban
	Ban      time.Duration // how long it lasts
}

// Offence is one thing held against a caller.
type Offence struct {
	Caller Caller
	Kind   Kind
}

// badTokenOffence is a signature that does not verify.
const badTokenOffence = UserRequired

const (
	offenceQueue = 1024  // offences that may wait for the judge
	suspects     = 65536 // callers whose offences are counted at once
	banTimeout   = 2 * time.Second
)

// judge turns offences into bans. It stands beside the pipeline: stages drop
// offences into a bounded channel and never wait for it; when it is full they
// are dropped and counted. A user is judged before his device or address, so
// that an office is not shut out for one of its people.
type judge struct {
	cfg     JudgeConfig
	deps    Deps
	inbox   chan Offence
	dropped atomic.Uint64
	banned  atomic.Uint64
	counts  *lru.Cache[suspect, tally]
}

type suspect struct {
	scope blacklist.Scope
	value string
}

type tally struct {
	since time.Time
	n     int
}

func newJudge(cfg JudgeConfig, deps Deps) *judge {
	counts, _ := lru.New[suspect, tally](suspects) // errors only for a size below one
	return &judge{cfg: cfg, deps: deps, inbox: make(chan Offence, offenceQueue), counts: counts}
}

// tell never blocks.
func (j *judge) tell(c Caller, k Kind) {
	if !j.cfg.Enabled {
		return
	}
	select {
	case j.inbox <- Offence{c, k}:
	default:
		j.dropped.Add(1)
	}
}

func (j *judge) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-j.inbox:
			j.weigh(ctx, o)
		}
	}
}

// weigh counts one offence and bans at the threshold. Only this goroutine
// touches the counts.
func (j *judge) weigh(ctx context.Context, o Offence) {
	who := suspectOf(o.Caller)
	now := j.deps.Now()
	t, _ := j.counts.Get(who)
	if now.Sub(t.since) > j.cfg.Window {
		t = tally{since: now}
	}
	t.n++
	j.counts.Add(who, t)
	if t.n < j.threshold(who.scope) {
		return
	}
	j.counts.Remove(who)
	ctx, cancel := context.WithTimeout(ctx, banTimeout)
	defer cancel()
	_, err := j.deps.Bans.Add(ctx, blacklist.Entry{
		Scope: who.scope, Value: who.value, Origin: "judge", Author: "judge",
		Reason:  "offences, the last one " + o.Kind.label(),
		Created: now, Until: now.Add(j.cfg.Ban),
	})
	if err != nil {
		j.deps.Log.Warn("the judge could not ban", "scope", who.scope, "err", err)
		return
	}
	j.banned.Add(1)
	j.deps.Log.Info("the judge banned a caller", "scope", who.scope, "value", who.value, "for", j.cfg.Ban.String())
}

// addressFactor: an address may stand for many people, so it takes so many times
// the offences of a user to shut it out.
const addressFactor = 10

func (j *judge) threshold(s blacklist.Scope) int {
	if s == blacklist.Addr || s == blacklist.CIDR {
		return j.cfg.Offences * addressFactor
	}
	return j.cfg.Offences
}

func suspectOf(c Caller) suspect {
	switch {
	case c.User != "":
		return suspect{blacklist.User, c.User}
	case c.Device != "":
		return suspect{blacklist.Device, c.Device}
	}
	if c.Addr.Is6() {
		home, _ := c.Addr.Prefix(64) // one household, as the limits count it
		return suspect{blacklist.CIDR, home.String()}
	}
	return suspect{blacklist.Addr, c.Addr.String()}
}
