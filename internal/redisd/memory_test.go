package redisd

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func memoryOptions(dir string) Options {
	return Options{Mode: ModeMemory, Dir: dir, Stock: []string{"demo"}}
}

func TestAMemoryRedisAnswersOnlyWithItsPassword(t *testing.T) {
	s := begin(t, memoryOptions(home(t)))
	says(t, s.Describe(), "memory (nothing survives a restart)")
	network, address, password := s.Network()
	if network != "tcp" || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("it listens on %s %s", network, address)
	}
	if h, _ := probe(t.Context(), endpoint{Network: network, Address: address}); h != dead {
		t.Error("it answers without a password")
	}
	rdb := redis.NewClient(&redis.Options{Network: network, Addr: address, Password: password})
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestInMemoryTTLsPassAndTIMEIsReal(t *testing.T) {
	s := begin(t, memoryOptions(home(t)))
	do(t, s.at, "SET", "short", "v", "PX", "150")
	do(t, s.at, "SET", "long", "v", "PX", "60000")
	began := time.Now()
	eventually(t, "the key expires", func() bool { return do(t, s.at, "EXISTS", "short") == "0" })
	if took := time.Since(began); took < 50*time.Millisecond || took > 2*time.Second {
		t.Errorf("a TTL of 150 ms took %v", took)
	}
	if do(t, s.at, "EXISTS", "long") != "1" {
		t.Error("a minute passed too early")
	}
	sec, err := strconv.ParseInt(do(t, s.at, "EVAL", "return redis.call('TIME')[1]", "0"), 10, 64)
	if err != nil || time.Since(time.Unix(sec, 0)).Abs() > 3*time.Second {
		t.Errorf("TIME is %d, %v", sec, err)
	}
}

func TestASecondProcessSharesTheMemoryAndFailsWhenItsHolderDies(t *testing.T) {
	for _, end := range []string{"kill -9", "close"} {
		t.Run(end, func(t *testing.T) {
			o := memoryOptions(home(t))
			holder := run(t, o)
			first := holder.ready()
			do(t, first.endpoint(), "SET", "k", "shared")

			o.Mode = ModeAuto // even if there is a redis-server
			s := begin(t, o)
			if !s.Attached() || s.Mode() != ModeMemory || do(t, s.at, "GET", "k") != "shared" {
				t.Fatalf("attached %v, mode %s", s.Attached(), s.Mode())
			}
			says(t, s.Describe(), "memory", "shared with another process")
			if end == "close" {
				holder.close()
			} else {
				holder.kill9()
			}
			says(t, (<-s.Failed()).Error(), "held the Redis in its memory has ended")
		})
	}
}

func TestAnAttachedProcessDoesNotTakeANewMemoryForTheOldOne(t *testing.T) {
	o := memoryOptions(home(t))
	holder := run(t, o)
	holder.ready()
	attached := begin(t, o)
	holder.kill9()
	begin(t, o) // begins anew, perhaps before the attached one has noticed
	says(t, (<-attached.Failed()).Error(), "has ended")
}

func TestAutoIsMemoryWithoutARedisServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := begin(t, Options{Dir: home(t)})
	if s.Mode() != ModeMemory {
		t.Errorf("mode %s", s.Mode())
	}
}

func TestAutoIsLocalWithARedisServer(t *testing.T) {
	needRedis(t)
	s := begin(t, Options{Mode: ModeAuto, Dir: home(t)})
	if s.Mode() != ModeLocal {
		t.Errorf("mode %s", s.Mode())
	}
}

func TestAutoRefusesToForgetTheStockOfALocalRun(t *testing.T) {
	o := localOptions(t, home(t))
	s := begin(t, o)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	refused(t, Options{Mode: ModeAuto, Dir: o.Dir}, "holds the stock of an earlier run", "no redis-server was found", "--data")
}

func TestTwoModesOnOneFolderAreRefused(t *testing.T) {
	local, memory := localOptions(t, home(t)), memoryOptions(dataFolder(t))
	local.Stock, memory.Stock = nil, nil
	begin(t, local)
	begin(t, memory)
	local.Mode, memory.Mode = ModeMemory, ModeLocal
	refused(t, local, "mode is memory", "in mode local")
	memory.Binary = local.Binary
	refused(t, memory, "mode is local", "in mode memory")
	refused(t, Options{Mode: "redis", Dir: memory.Dir}, `redis mode "redis" is unknown`)
}

func TestMemoryModeRefusesAFolderWithALiveRedisServer(t *testing.T) {
	o := localOptions(t, home(t))
	p := run(t, o)
	p.ready()
	p.kill9()
	o.Mode = ModeMemory
	refused(t, o, "is alive on the data folder")
}

func TestAStateFileOfADeadMemoryIsNoObstacle(t *testing.T) {
	o := memoryOptions(home(t))
	p := run(t, o)
	p.ready()
	p.kill9()
	if _, err := os.Stat(filepath.Join(o.Dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	if s := begin(t, o); s.Attached() {
		t.Error("it attached to a dead Redis")
	}
}
