package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Mark is how far the buckets of a sale were when it was last looked at.
type Mark struct {
	Generation int64   `json:"generation"`
	Seqs       []int64 `json:"seqs"` // per bucket
	// Judged counts the losses that were found and for which the sale was paused:
	// only such a mark is lower than the one before.
	Judged int64 `json:"judged,omitempty"`
}

// Merge is the later of two marks of a sale, that replicas may have kept at
// once: of the one that knows of more losses, then of the higher generation,
// then of the higher count of each bucket.
func (m Mark) Merge(o Mark) Mark {
	switch {
	case m.Judged != o.Judged:
		if o.Judged > m.Judged {
			return o
		}
		return m
	case m.Generation != o.Generation || len(m.Seqs) != len(o.Seqs):
		if o.Generation > m.Generation {
			return o
		}
		return m
	}
	seqs := make([]int64, len(m.Seqs))
	for i := range seqs {
		seqs[i] = max(m.Seqs[i], o.Seqs[i])
	}
	return Mark{Generation: m.Generation, Seqs: seqs, Judged: m.Judged}
}

// after carries what a mark must keep of the one before it.
func (m Mark) after(old Mark) Mark {
	m.Judged = old.Judged
	fell := m.Generation < old.Generation
	for i := 0; m.Generation == old.Generation && i < min(len(m.Seqs), len(old.Seqs)); i++ {
		fell = fell || m.Seqs[i] < old.Seqs[i]
	}
	if fell {
		m.Judged++
	}
	return m
}

// Marks keeps marks outside of Redis, so that a Redis that forgot something
// while no replica lived is found out.
type Marks interface {
	Load() (map[string]Mark, error)
	// Save keeps these marks, whole or not at all, and drops those of the sales
	// named after them.
	Save(keep map[string]Mark, drop ...string) error
}

// markKeeper holds the marks of all sales, the kept ones and the new.
type markKeeper struct {
	to Marks

	mu    sync.Mutex
	known map[string]Mark
	asked map[string]bool // sales that are unknown but for their mark, and were looked for
}

func newMarkKeeper(to Marks) (*markKeeper, error) {
	k := &markKeeper{to: to, known: map[string]Mark{}, asked: map[string]bool{}}
	if to == nil {
		return k, nil
	}
	known, err := to.Load()
	if err != nil {
		return nil, fmt.Errorf("reading the marks of the stock: %w", err)
	}
	if known != nil {
		k.known = known
	}
	return k, nil
}

// of is what was kept of a sale.
func (k *markKeeper) of(sale string) (Mark, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.known[sale]
	return m, ok
}

// sold says whether a sale is known to have changed since its preheat.
func (k *markKeeper) sold(sale string) bool {
	m, ok := k.of(sale)
	return ok && m.sold()
}

func (m Mark) sold() bool { return slices.ContainsFunc(m.Seqs, func(n int64) bool { return n > 0 }) }

// recall holds the first reading of a generation to what was kept of the sale,
// and to what this replica saw of it. A generation below one that had sold is
// back from the dead: its stock is whole, and part of it is sold.
func (s *Store) recall(e, old *entry) {
	m, ok := s.marks.of(e.view.Sale.ID)
	back := ok && m.Generation > e.view.Generation && m.sold() ||
		old != nil && old.view.Generation > e.view.Generation && old.seen() > 0
	same := ok && m.Generation == e.view.Generation && len(m.Seqs) == len(e.cells)
	for i, c := range e.cells {
		if back {
			c.watch.fellBack()
		}
		if same {
			c.watch.remember(m.Seqs[i])
		}
	}
}

// keepMarks saves the marks if they moved.
func (s *Store) keepMarks(entries []*entry) []chore {
	if s.marks.to == nil {
		return nil
	}
	moved := map[string]Mark{}
	for _, e := range entries {
		m := Mark{Generation: e.view.Generation, Seqs: make([]int64, len(e.cells))}
		owed := false
		for i, c := range e.cells {
			m.Seqs[i] = c.watch.seen()
			owed = owed || c.watch.owes()
		}
		if owed { // the old mark is what proves the gap until the pause stands
			continue
		}
		old, ok := s.marks.of(e.view.Sale.ID)
		if !ok || old.Generation != m.Generation || !slices.Equal(old.Seqs, m.Seqs) {
			moved[e.view.Sale.ID] = m.after(old)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	return []chore{func(context.Context) error { return s.marks.save(moved) }}
}

func (k *markKeeper) save(moved map[string]Mark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := maps.Clone(k.known)
	maps.Copy(all, moved)
	if err := k.to.Save(all); err != nil {
		return fmt.Errorf("keeping the marks of the stock: %w", err)
	}
	k.known = all
	return nil
}

// forget drops the mark of a sale that is in the archive for good.
func (k *markKeeper) forget(sale string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.known[sale]; !ok || k.to == nil {
		return nil
	}
	rest := maps.Clone(k.known)
	delete(rest, sale)
	if err := k.to.Save(rest, sale); err != nil {
		return fmt.Errorf("dropping the mark of sale %s: %w", sale, err)
	}
	k.known = rest
	return nil
}

// strangers are the sales that have a mark and nothing else, each told once.
func (k *markKeeper) strangers(entries []*entry) []string {
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.view.Sale.ID] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for sale := range k.known {
		if !there[sale] && !k.asked[sale] {
			k.asked[sale] = true
			all = append(all, sale)
		}
	}
	return all
}
