package clock

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// host is a fake local clock.
type host struct{ at atomic.Int64 }

func newHost() *host {
	h := &host{}
	h.at.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return h
}

func (h *host) now() time.Time          { return time.Unix(0, h.at.Load()).UTC() }
func (h *host) advance(d time.Duration) { h.at.Add(int64(d)) }

// trip is how long one question and its answer travel, by the host's clock.
type trip struct{ out, back time.Duration }

func even(d time.Duration) trip { return trip{d / 2, d / 2} }

// down is a trip that fails.
func down() trip { return trip{-1, -1} }

// lag is the network to a Redis whose time is the host's plus ahead; it makes the trips in turn.
type lag struct {
	host  *host
	redis *miniredis.Miniredis
	ahead time.Duration
	trips []trip
	calls int
}

func (l *lag) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *lag) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lag) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "time" {
			return next(ctx, cmd)
		}
		trip := l.trips[l.calls%len(l.trips)]
		l.calls++
		if trip == down() {
			err := errors.New("the network is down")
			cmd.SetErr(err)
			return err
		}
		l.host.advance(trip.out)
		l.redis.SetTime(l.host.now().Add(l.ahead))
		err := next(ctx, cmd)
		l.host.advance(trip.back)
		return err
	}
}

// fake is a clock on a fake host with a fake network to a miniredis.
func fake(t *testing.T, trips ...trip) (*Clock, *host, *lag) {
	t.Helper()
	h, m := newHost(), miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	l := &lag{host: h, redis: m, trips: trips}
	rdb.AddHook(l)
	return newAt(rdb, h.now), h, l
}

func measure(t *testing.T, c *Clock) {
	t.Helper()
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestUntilMeasuredTheClockShowsLocalTime(t *testing.T) {
	c, h, _ := fake(t, even(0))
	if !c.Now().Equal(h.now()) || c.Offset() != 0 {
		t.Errorf("now %v, offset %v", c.Now(), c.Offset())
	}
}

func TestTIMECountsAtHalfTheTripAndTheFastestSampleDecides(t *testing.T) {
	const ms = time.Millisecond
	slow := trip{out: 400 * ms, back: 20 * ms} // would be 190 ms wrong
	for name, trips := range map[string][]trip{
		"one sample":           {even(10 * ms)},
		"the first is fastest": {even(2 * ms), slow, slow, slow, slow},
		"the last is fastest":  {slow, slow, slow, slow, even(2 * ms)},
		"some fail":            {down(), slow, even(20 * ms), down(), down()},
	} {
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			c, _, l := fake(t, trips...)
			l.ahead = ahead
			measure(t, c)
			if c.Offset() != ahead {
				t.Errorf("%s: offset %v, want %v", name, c.Offset(), ahead)
			}
		}
	}
}

func TestAnOffsetWithinTheErrorOfTheSampleIsKept(t *testing.T) {
	c, _, l := fake(t, even(100*time.Millisecond))
	for _, step := range []struct{ ahead, want time.Duration }{
		{time.Minute, time.Minute},
		{time.Minute + 50*time.Millisecond, time.Minute},
		{time.Minute - 50*time.Millisecond, time.Minute},
		{time.Minute + 51*time.Millisecond, time.Minute + 51*time.Millisecond},
	} {
		l.ahead = step.ahead
		measure(t, c)
		if c.Offset() != step.want {
			t.Errorf("ahead by %v: offset %v, want %v", step.ahead, c.Offset(), step.want)
		}
	}
}

func TestTheClockStandsStillRatherThanGoBack(t *testing.T) {
	c, h, l := fake(t, even(0))
	l.ahead = 10 * time.Second
	measure(t, c)
	before := c.Now()
	l.ahead = 4 * time.Second
	measure(t, c)
	if c.Offset() != 4*time.Second {
		t.Fatalf("offset %v", c.Offset())
	}
	h.advance(5 * time.Second)
	if got := c.Now(); !got.Equal(before) {
		t.Errorf("it went from %v to %v", before, got)
	}
	h.advance(2 * time.Second)
	if got := c.Now().Sub(before); got != time.Second {
		t.Errorf("it moved by %v, want 1s", got)
	}
}

func TestAFailedSyncKeepsTheOffset(t *testing.T) {
	c, _, l := fake(t, even(0))
	l.ahead = time.Minute
	measure(t, c)
	l.trips = []trip{down()}
	if err := c.Sync(t.Context()); err == nil {
		t.Error("no error")
	}
	if c.Offset() != time.Minute {
		t.Errorf("offset %v", c.Offset())
	}
}

func TestNowNeverGoesBackAmongGoroutinesWhileTheOffsetFalls(t *testing.T) {
	c := New(nil)
	var wg sync.WaitGroup
	var latest atomic.Int64
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				seen := latest.Load()
				now := c.Now().UnixNano()
				if now < seen {
					t.Errorf("went back by %d ns", seen-now)
					return
				}
				for old := latest.Load(); now > old && !latest.CompareAndSwap(old, now); old = latest.Load() {
				}
			}
		})
	}
	for range 1000 {
		c.offset.Add(-int64(time.Microsecond))
	}
	wg.Wait()
}

func TestNowDoesNotAllocate(t *testing.T) {
	c := New(nil)
	if n := testing.AllocsPerRun(100, func() { _ = c.Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRunMeasuresAtOnceAndAgainUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		rdb := redis.NewClient(&redis.Options{
			MaxRetries: -1,
			Addr:       "127.0.0.1:1", // never dialled; a name would be looked up outside of the bubble
			Dialer:     func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		})
		defer func() { _ = rdb.Close(); m.Close(); synctest.Wait() }()
		m.SetTime(time.Now().Add(time.Hour))
		c := New(rdb)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		if c.Offset() != time.Hour {
			t.Errorf("offset %v", c.Offset())
		}
		m.SetTime(time.Now().Add(2 * time.Hour))
		time.Sleep(syncEvery) // of the bubble
		synctest.Wait()
		if got := c.Offset(); got < 2*time.Hour-syncEvery || got == time.Hour {
			t.Errorf("offset %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestOnARealRedisOfThisHostTheOffsetIsSmall(t *testing.T) {
	rdb := realRedis(t)
	c := New(rdb)
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Offset().Abs() > 100*time.Millisecond {
		t.Errorf("offset %v", c.Offset())
	}
	was := c.Offset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Sync(ctx); !errors.Is(err, context.Canceled) || c.Offset() != was {
		t.Errorf("with an ended context: %v, offset %v", err, c.Offset())
	}
}

func realRedis(t *testing.T) redis.UniversalClient {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") == "1" {
			t.Fatal(err)
		}
		t.Skip("no redis-server on PATH")
	}
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", filepath.Dir(socket))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = rdb.Close() })
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); rdb.Ping(t.Context()).Err() != nil; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("redis-server does not answer")
		}
	}
	return rdb
}

func BenchmarkNow(b *testing.B) {
	c := New(nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = c.Now()
		}
	})
}
