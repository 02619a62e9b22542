package archive

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/inventory"
)

// shelf is a Source in memory. The same copier is tested on a real Store too.
type shelf struct {
	mu      sync.Mutex
	order   []string // of the sales
	views   map[string]inventory.View
	rows    map[string][]inventory.Reservation
	now     time.Time
	cleaned []string
	// walking is called before each row of a walk.
	walking func(n int)
	// cleaning decides over a Cleanup: done, and what is answered.
	cleaning func() (bool, error)
}

func newShelf() *shelf {
	return &shelf{
		views: map[string]inventory.View{}, rows: map[string][]inventory.Reservation{}, now: saleStart,
		walking: func(int) {}, cleaning: func() (bool, error) { return true, nil },
	}
}

// put lays rows on the shelf, over those with the same id.
func (s *shelf) put(sale inventory.Sale, rows ...inventory.Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.views[sale.ID]; !known {
		s.order = append(s.order, sale.ID)
	}
	seq := s.views[sale.ID].Level.Seq
	for _, r := range rows {
		r.Sale = sale.ID
		seq++
		if at := slices.IndexFunc(s.rows[sale.ID], func(o inventory.Reservation) bool { return o.ID == r.ID }); at >= 0 {
			s.rows[sale.ID][at] = r
		} else {
			s.rows[sale.ID] = append(s.rows[sale.ID], r)
		}
	}
	level := inventory.Level{Sale: sale.ID, Total: sale.Total, Seq: seq}
	for _, r := range s.rows[sale.ID] {
		level.Confirmed += units(r)
		if r.State == inventory.Reserved {
			level.Reserved += r.Quantity
		}
	}
	level.Free = sale.Total - level.Confirmed - level.Reserved
	s.views[sale.ID] = inventory.View{Sale: sale, Desired: inventory.DesiredOn, Level: level, SoldOut: level.Free == 0 && level.Reserved == 0}
}

func (s *shelf) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *shelf) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *shelf) Views() []inventory.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []inventory.View
	for _, sale := range s.order {
		if v, there := s.views[sale]; there {
			list = append(list, v)
		}
	}
	return list
}

func (s *shelf) Level(_ context.Context, sale string) (inventory.Level, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, there := s.views[sale]
	if !there {
		return inventory.Level{}, inventory.ErrUnknownSale
	}
	v.Level.At = s.now
	return v.Level, nil
}

func (s *shelf) Ledger(ctx context.Context, sale string, fn func(inventory.Reservation) error) error {
	s.mu.Lock()
	rows := slices.Clone(s.rows[sale])
	s.mu.Unlock()
	for i, r := range rows {
		s.walking(i)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *shelf) Cleanup(_ context.Context, sale string) error {
	done, err := s.cleaning()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleaned = append(s.cleaned, sale)
	if v := s.views[sale]; done {
		v.Gone = true
		s.views[sale] = v
		delete(s.rows, sale)
	}
	return err
}

// saboteur is an archive whose Save number at fails.
type saboteur struct {
	inventory.Archive
	at      int
	applied bool
	saves   int
	stop    context.CancelFunc // instead of an error, when set
}

func (s *saboteur) Save(ctx context.Context, sale inventory.Sale, rows []inventory.Reservation) error {
	s.saves++
	if s.saves != s.at {
		return s.Archive.Save(ctx, sale, rows)
	}
	var err error
	if s.applied {
		err = s.Archive.Save(ctx, sale, rows)
	}
	if s.stop != nil {
		s.stop()
		return ctx.Err()
	}
	if err == nil {
		err = inventory.ErrOutcomeUnknown
	}
	return err
}

// copies is a copier with ears.
type copies struct {
	*Copier
	log    bytes.Buffer
	passes []Copied
	errs   []error
}

func newCopier(t testing.TB, source Source, archive inventory.Archive, change func(*CopierConfig)) *copies {
	t.Helper()
	c := &copies{}
	config := CopierConfig{Source: source, Archive: archive, Log: slog.New(slog.NewTextHandler(&c.log, nil)), OnPass: func(done Copied, err error) {
		c.passes, c.errs = append(c.passes, done), append(c.errs, err)
	}}
	if s, ok := source.(*shelf); ok {
		config.Now = s.clock
	}
	if change != nil {
		change(&config)
	}
	var err error
	c.Copier, err = NewCopier(config)
	must(t, err)
	return c
}

// manyRows are n reservations in all states, without one that is open; a third
// is confirmed.
func manyRows(n int) []inventory.Reservation {
	states := []inventory.State{
		inventory.Confirmed, inventory.Released, inventory.Expired, inventory.Confirmed, inventory.RefundDue, inventory.Returned,
	}
	rows := make([]inventory.Reservation, n)
	for i := range rows {
		rows[i] = row(i, states[i%len(states)], 1)
	}
	return rows
}
