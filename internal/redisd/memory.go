package redisd

import (
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// memoryTick is how late a key may expire in memory mode.
const memoryTick = 50 * time.Millisecond

// memory is a miniredis whose clock runs. Left alone, miniredis answers TIME with real time
// but never lets a TTL pass.
type memory struct {
	redis *miniredis.Miniredis
	quit  chan struct{}
	clock sync.WaitGroup
}

// startMemory serves this process and those that attach to the folder. The password keeps
// other users of the host out, which a unix socket's mode does in local mode.
func (s *Server) startMemory() error {
	m := &memory{redis: miniredis.NewMiniRedis(), quit: make(chan struct{})}
	password := rand.Text()
	m.redis.RequireAuth(password)
	if err := m.redis.StartAddr("127.0.0.1:0"); err != nil {
		return fmt.Errorf("starting the memory Redis: %w", err)
	}
	m.clock.Go(m.run)
	s.mem = m
	s.at = endpoint{Mode: ModeMemory, Network: "tcp", Address: m.redis.Addr(), Password: password}
	if s.folder.hasAppendOnly() {
		s.log.Warn("redis: the data that redis-server left in the folder is NOT used in memory mode", "folder", s.folder.name)
	}
	s.log.Warn("redis: memory mode: NOTHING SURVIVES A RESTART: stock, orders, bans and passes are gone with this process; install redis-server or set redis.mode")
	s.as = "memory (nothing survives a restart)"
	return s.folder.writeState(s.at)
}

// run moves the TTLs by the time that really passed, however late the ticker is.
func (m *memory) run() {
	tick := time.NewTicker(memoryTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-m.quit:
			return
		case <-tick.C:
			now := time.Now()
			m.redis.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (m *memory) close() {
	close(m.quit)
	m.clock.Wait()
	m.redis.Close()
}
