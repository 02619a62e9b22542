package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const add = `return redis.call('INCR', KEYS[1])`

// counted is a server behind a proxy, a client through the proxy, and the truth.
func counted(t *testing.T) (p *Proxy, through *redis.Client, executed func() int) {
	t.Helper()
	n := Single(t)
	p = NewProxy(t, n.Addr())
	o := n.Options()
	o.Addr = p.Addr()
	o.ReadTimeout = 150 * time.Millisecond
	direct := n.Client(t)
	return p, closed(t, redis.NewClient(o)), func() int {
		t.Helper()
		count, err := direct.Get(t.Context(), "count").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		return count
	}
}

func eval(t *testing.T, c redis.Scripter) error {
	t.Helper()
	return c.Eval(t.Context(), add, []string{"count"}).Err()
}

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

func TestEachFaultDoesItsHarmOnceAndTheNextCommandPasses(t *testing.T) {
	for _, c := range []struct {
		name     string
		set      func(*Proxy) *Fault
		executed int
		failed   func(error) bool
	}{
		{"a dropped reply", func(p *Proxy) *Fault { return p.DropReply("EVAL", 1) }, 1, hungUp},
		{"a hanging reply", func(p *Proxy) *Fault { return p.HangReply("EVAL", 1) }, 1, timedOut},
		{"a reply later than the client waits", func(p *Proxy) *Fault { return p.DelayReply("EVAL", 1, time.Second) }, 1, timedOut},
		{"a reply just late", func(p *Proxy) *Fault { return p.DelayReply("EVAL", 1, 30*time.Millisecond) }, 1, nil},
		{"a cut before", func(p *Proxy) *Fault { return p.CutBefore("EVAL", 1) }, 0, hungUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, through, executed := counted(t)
			fault := c.set(p)
			start := time.Now()
			err := eval(t, through)
			if c.failed != nil && !c.failed(err) || c.failed == nil && err != nil {
				t.Fatalf("the client got %v", err)
			}
			if c.failed == nil && time.Since(start) < 30*time.Millisecond {
				t.Fatal("the reply was not late")
			}
			if got := executed(); got != c.executed || fault.Hits() != 1 {
				t.Fatalf("executed %d times with %d hits, want %d and 1", got, fault.Hits(), c.executed)
			}
			if err := eval(t, through); err != nil {
				t.Fatalf("the command after it: %v", err)
			}
			if got := executed(); got != c.executed+1 || p.Count("EVAL") != 2 {
				t.Fatalf("executed %d and saw %d", got, p.Count("EVAL"))
			}
		})
	}
}

func TestAFaultHarmsOnlyItsCommandAndAsOftenAsItWasTold(t *testing.T) {
	p, through, executed := counted(t)
	fault := p.CutBefore("EVAL", 2)
	if err := through.Set(t.Context(), "other", 1, 0).Err(); err != nil {
		t.Fatalf("another command: %v", err)
	}
	for range 2 {
		if err := eval(t, through); !hungUp(err) {
			t.Fatalf("got %v", err)
		}
	}
	if err := eval(t, through); err != nil || executed() != 1 || fault.Hits() != 2 {
		t.Fatalf("the third: %v, executed %d, hits %d", err, executed(), fault.Hits())
	}
	lasting := p.DropReply("", 0)
	for range 3 {
		if err := eval(t, through); !hungUp(err) {
			t.Fatalf("got %v", err)
		}
	}
	lasting.Clear()
	if err := eval(t, through); err != nil || executed() != 5 {
		t.Fatalf("after Clear: %v, executed %d", err, executed())
	}
}

func TestAnyCommandMeansNoneOfTheConnectionsSetUp(t *testing.T) {
	p, through, executed := counted(t)
	p.DropReply("", 1)
	if err := eval(t, through); !hungUp(err) || p.Count("HELLO") != 1 {
		t.Fatalf("got %v after %d HELLO", err, p.Count("HELLO"))
	}
	if executed() != 1 {
		t.Fatalf("executed %d times: the fault hit the set-up", executed())
	}
}

// By hand, because go-redis gives the error of one command to all of its pipeline.
func TestInAPipelineTheRepliesBeforeTheFaultArrive(t *testing.T) {
	for _, c := range []struct {
		name     string
		set      func(*Proxy) *Fault
		executed int
		ends     func(error) bool
	}{
		{"dropped", func(p *Proxy) *Fault { return p.DropReply("EVAL", 1) }, 3, hungUp},
		{"hanging", func(p *Proxy) *Fault { return p.HangReply("EVAL", 1) }, 3, timedOut},
		{"cut", func(p *Proxy) *Fault { return p.CutBefore("EVAL", 1) }, 1, hungUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _, executed := counted(t)
			c.set(p)
			conn, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
			incr, script := "*2\r\n$4\r\nINCR\r\n$5\r\ncount\r\n", fmt.Sprintf("*4\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n1\r\n$5\r\ncount\r\n", len(add), add)
			if _, err := io.WriteString(conn, incr+script+incr); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(conn); string(got) != ":1\r\n" || !c.ends(cmp.Or(err, io.EOF)) {
				t.Fatalf("read %q and %v", got, err)
			}
			wait(t, "the rest of the pipeline", func() error {
				if got := executed(); got != c.executed {
					return fmt.Errorf("executed %d, want %d", got, c.executed)
				}
				return nil
			})
		})
	}
}

func TestABlackHoleExecutesNothingAndHealEndsIt(t *testing.T) {
	p, through, executed := counted(t)
	if err := eval(t, through); err != nil {
		t.Fatal(err)
	}
	p.DropAll()
	for range 2 { // on the open connection, and on a new one
		if err := eval(t, through); !timedOut(err) {
			t.Fatalf("in the dark: %v", err)
		}
	}
	p.Heal()
	if err := eval(t, through); err != nil || executed() != 2 {
		t.Fatalf("healed: %v, executed %d", err, executed())
	}
}

func TestRefusedConnectionsComeBackAtTheSameAddress(t *testing.T) {
	p, through, executed := counted(t)
	if err := eval(t, through); err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	wait(t, "a refused connection", func() error {
		if err := eval(t, through); !errors.Is(err, syscall.ECONNREFUSED) {
			return errors.New("not refused")
		}
		return nil
	})
	p.Heal()
	if err := eval(t, through); err != nil || executed() != 2 {
		t.Fatalf("healed: %v, executed %d", err, executed())
	}
}

func TestCountsAreByNameAndResettable(t *testing.T) {
	p, through, _ := counted(t)
	_ = through.Set(t.Context(), "a", 1, 0)
	_ = through.Get(t.Context(), "a")
	_ = through.Do(t.Context(), "get", "a")
	if p.Count("GET") != 2 || p.Count("SET") != 1 || p.Counts()["GET"] != 2 {
		t.Fatalf("counted %v", p.Counts())
	}
	p.Reset()
	if len(p.Counts()) != 0 {
		t.Fatalf("after Reset: %v", p.Counts())
	}
}

func TestSubscriptionsAndBigRepliesPassTheProxy(t *testing.T) {
	p, through, _ := counted(t)
	for _, protocol := range []int{2, 3} {
		o := through.Options()
		o = &redis.Options{Addr: o.Addr, Protocol: protocol, MaxRetries: -1, DisableIdentity: true}
		c := closed(t, redis.NewClient(o))
		sub := closed(t, c.Subscribe(t.Context(), "news"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		big := string(make([]byte, 1<<20))
		if err := c.Publish(ctx, "news", big).Err(); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != big {
			t.Fatalf("protocol %d: %v", protocol, err)
		}
		if err := c.HSet(ctx, "h", "a", 1, "b", 2).Err(); err != nil {
			t.Fatal(err)
		}
		if all, err := c.HGetAll(ctx, "h").Result(); err != nil || len(all) != 2 {
			t.Fatalf("protocol %d: %v %v", protocol, all, err)
		}
	}
	if p.Count("PUBLISH") != 2 {
		t.Fatalf("counted %v", p.Counts())
	}
}
