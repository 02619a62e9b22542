package inventory

import "sync"

// watch is what this replica saw of one bucket: the highest seq under the last
// server run it knows, by which a loss is found out.
type watch struct {
	mu   sync.Mutex
	run  string
	arms int // how often the bucket had been armed
	seq  int64
	// behind: Redis has fallen back to this bucket from a later generation that had sold.
	behind bool
	// owed: a gap was found, and the pause for it does not stand yet.
	owed bool
}

// remember starts from a mark that was kept outside of Redis: what any run of
// the server must have at least.
func (w *watch) remember(seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run == "" {
		w.seq = max(w.seq, seq)
	}
}

// fellBack makes the first reading a gap, whatever it says.
func (w *watch) fellBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = true
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

// judge is what an arming goes by: seen, and whether a gap was found already,
// for then seen is what the server had left.
func (w *watch) judge() (seen int64, owed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq, w.owed
}

func (w *watch) owes() bool {
	_, owed := w.judge()
	return owed
}

func (w *watch) owe(owed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owed = owed
}

// inspect judges a reading against what was seen: were changes that this
// replica saw forgotten, and is the server run a new one? before is seen() from
// before the reading was asked for; armed is the seq at each arming, the first is
// 0. found is the seq that was judged: what the server had left.
func (w *watch) inspect(run string, armed []int64, seq, before int64) (found int64, gap, newRun bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found = seq
	switch {
	case w.run == "": // the first reading, to be held to a mark from outside
		gap = seq < w.seq || w.behind
	case run == w.run:
		if seq >= before {
			w.seq = max(w.seq, seq)
			return found, false, false
		}
		gap = true
	case len(armed) > w.arms: // judge by the first arming that was missed
		found, newRun = armed[w.arms], true
		gap = found < w.seq
	case len(armed) == 0:
		gap, newRun = true, true
	default: // armings were lost too
		found, newRun = armed[len(armed)-1], true
		gap = found < w.seq
	}
	w.run, w.arms, w.seq, w.owed = run, len(armed), seq, w.owed || gap
	return found, gap, newRun
}
