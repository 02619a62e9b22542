package inventory

import (
	"sync"
	"sync/atomic"
	"time"
)

// soldOutFor is how long a sold-out mark may live without being confirmed, so
// that it never hides a returned unit for longer.
const soldOutFor = 500 * time.Millisecond

// mark is a sold-out answer: at this seq nothing was free or reserved.
type mark struct {
	seq int64
	at  time.Time // before the question was sent
}

// watch is what this replica saw of one generation of a sale: the highest seq
// under the last server run it knows, by which a loss is found out.
type watch struct {
	sold atomic.Pointer[mark]

	mu   sync.Mutex
	run  string
	arms int // how often the bucket had been armed
	seq  int64
}

// saw notes the seq of a script's answer. Answers of a run that inspect has not
// judged yet do not count.
func (w *watch) saw(run string, seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run == w.run && seq > w.seq {
		w.seq = seq
	}
}

func (w *watch) seen() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// inspect judges a reading against what was seen and says whether changes that
// this replica saw are gone. before is seen() from before the reading was asked
// for; armed is the seq at each arming, the first is 0.
func (w *watch) inspect(run string, armed []int64, seq, before int64) (gap bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.run == "": // the first reading
	case run == w.run:
		if seq >= before {
			w.seq = max(w.seq, seq)
			return false
		}
		gap = true
	case len(armed) > w.arms: // judge by the first arming that was missed
		gap = armed[w.arms] < w.seq
	default: // armings were lost too
		gap = len(armed) == 0 || armed[len(armed)-1] < w.seq
	}
	w.run, w.arms, w.seq = run, len(armed), seq
	return gap
}

// soldOut says whether the mark stands and is young enough.
func (w *watch) soldOut(now time.Time) bool {
	m := w.sold.Load()
	return m != nil && now.Sub(m.at) < soldOutFor
}

// level sets or clears the mark by a reading.
func (w *watch) level(l Level, at time.Time) {
	if l.Free == 0 && l.Reserved == 0 && l.OnLoan == 0 {
		w.sold.Store(&mark{seq: l.Seq, at: at})
		return
	}
	if m := w.sold.Load(); m != nil && m.seq <= l.Seq {
		w.sold.CompareAndSwap(m, nil)
	}
}

// markSoldOut sets the mark at once from an answer, unless a later reading is
// already here.
func (s *Store) markSoldOut(sale string, seq int64, at time.Time) {
	e, ok := s.views.Load().bySale[sale]
	if ok && seq >= e.view.Level.Seq {
		e.watch.sold.Store(&mark{seq: seq, at: at})
	}
}
