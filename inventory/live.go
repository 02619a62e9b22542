package inventory

import (
	"sync"
	"sync/atomic"
	"time"
)

// live is what outlasts the refreshes of one generation of a sale.
type live struct {
	cells []*cell
	sold  atomic.Pointer[mark]
	share share
	line  line
	// loans is the flow of loans at the last reading, to see one that stays on the road.
	loans    atomic.Pointer[roadwork]
	deficits sync.Map     // loans whose deficit was told
	retire   atomic.Int64 // when it is next taken off the list, ns of the store's clock
	// orders that came here, and those of them that found no preheated stock.
	orders, missed atomic.Int64
}

func newLive(r record) *live {
	l := &live{cells: make([]*cell, len(r.Tags))}
	for i, tag := range r.Tags {
		b := bucket{sale: r.Plan.ID, tag: tag, generation: r.Generation}
		l.cells[i] = &cell{bucket: b, index: i, all: b.keys()}
	}
	return l
}

// cell is one bucket as this replica knows it.
type cell struct {
	bucket
	index   int
	all     []string // KEYS of the bucket's scripts
	watch   watch
	flights flights
	recent  recent
	untold  untold
	unkept  untold // wins that cannot be told again: their units are another's now

	level atomic.Pointer[head] // the last reading
	arm   sync.Mutex           // one arming at a time
	arms  atomic.Int64         // armings by this replica
}

// home is the bucket of an order.
func (l *live) home(id string) *cell { return l.cells[home(id, len(l.cells))] }

// soldOutFor is how long a sold-out mark may live without being confirmed, so
// that it never hides a returned unit for longer than 500 ms.
const soldOutFor = 450 * time.Millisecond

// mark is a sold-out answer: at this seq nothing was free, reserved or on loan.
type mark struct {
	seq int64
	at  int64 // before the question was sent; ns of the store's monotonic clock
}

// soldOut says whether the mark stands and is young enough.
func (l *live) soldOut(now int64) bool {
	m := l.sold.Load()
	return m != nil && now-m.at < int64(soldOutFor)
}

// judge sets or clears the mark by a reading of all buckets. A reading of
// several is no snapshot: a unit may travel from one not yet read to one read
// before. Two readings with equal versions are one, at any moment between them.
func (l *live) judge(level Level, still bool, at int64) {
	if level.Free == 0 && level.Reserved == 0 && level.OnLoan == 0 {
		if still || len(l.cells) == 1 {
			l.sold.Store(&mark{seq: level.Seq, at: at})
		}
		return
	}
	if m := l.sold.Load(); m != nil && m.seq <= level.Seq {
		l.sold.CompareAndSwap(m, nil)
	}
}

// markSoldOut sets the mark from an answer, unless a later reading is here.
func (l *live) markSoldOut(seq, atLeast, at int64) {
	if seq >= atLeast {
		l.sold.Store(&mark{seq: seq, at: at})
	}
}
