package inventory

import (
	"time"
)

// model is the stock in plain Go: what the scripts must do, without Redis.
type model struct {
	sale                      Sale
	now                       time.Duration
	free, reserved, confirmed int64
	buyers                    map[string]int64
	orders                    map[string]*modelOrder
	holds, exts               []string
	asks                      []modelAsk
	lastAsk, lastHold         time.Duration
	lastExt                   time.Duration
	desired                   Desired
}

type modelOrder struct {
	Order
	state     State
	due, till time.Duration // till 0 = closed
	pays      bool          // it was extended
	attempt   int
	lined     bool // its first attempt stands in asks
}

type modelAsk struct {
	id      string
	attempt int
	until   time.Duration
}

func newModel(s Sale) *model {
	// now starts past 0, which means "closed" in till.
	return &model{sale: s, now: time.Hour, desired: DesiredOn, free: s.Total, buyers: map[string]int64{}, orders: map[string]*modelOrder{}}
}

func (m *model) close(o *modelOrder, to State) {
	if o.state == Reserved {
		m.reserved -= o.Quantity
	} else {
		m.confirmed -= o.Quantity
	}
	m.free += o.Quantity
	m.buyers[o.User] -= o.Quantity
	o.state, o.till = to, 0
}

func (m *model) mayFree(o *modelOrder) bool {
	return o.state == Reserved && o.due <= m.now && (m.sale.Expiry == ExpiryFree || o.till == 0)
}

func (m *model) freeDue(want int64) {
	m.freeLine(&m.exts, true, want)
	m.freeLine(&m.holds, false, want)
}

func (m *model) freeLine(line *[]string, extended bool, want int64) {
	for m.free < want && len(*line) > 0 {
		o := m.orders[(*line)[0]]
		here := o.state == Reserved && (extended || !o.pays)
		if here && o.due > m.now {
			return
		}
		*line = (*line)[1:]
		if here && m.mayFree(o) {
			m.close(o, Expired)
		}
		if !extended && o.firstOpen() && o.till > m.now {
			o.lined = true
			m.watch(o, o.till)
		}
	}
}

// firstOpen: it is to be asked about once its first attempt has run out.
func (o *modelOrder) firstOpen() bool {
	return o.state == Reserved && o.attempt == 1 && o.till != 0 && !o.lined
}

func (m *model) watch(o *modelOrder, until time.Duration) {
	m.lastAsk = max(m.lastAsk, until)
	m.asks = append(m.asks, modelAsk{o.ID, o.attempt, m.lastAsk})
}

func (m *model) reserve(o Order) (code Code, granted bool) {
	if k, ok := m.orders[o.ID]; ok {
		return m.repeat(k, o)
	}
	if m.desired != DesiredOn {
		return NotRunning, false
	}
	over := func() bool { return m.buyers[o.User]+o.Quantity > m.sale.BuyerLimit }
	if over() {
		m.freeDue(maxUnits + 1)
		if over() {
			return BuyerLimit, false
		}
	}
	m.freeDue(o.Quantity)
	switch {
	case m.free == 0 && m.reserved > 0:
		return NoneFreeNow, false
	case m.free < o.Quantity:
		return NotEnough, false
	}
	m.hold(o, m.now+m.sale.Hold, m.now+o.AttemptFor)
	if m.free == 0 {
		return TakenLast, true
	}
	return Taken, true
}

// hold takes units.
func (m *model) hold(o Order, due, till time.Duration) {
	m.lastHold = max(due, m.lastHold)
	m.orders[o.ID] = &modelOrder{Order: o, state: Reserved, due: m.lastHold, till: till, attempt: 1}
	m.free -= o.Quantity
	m.reserved += o.Quantity
	m.buyers[o.User] += o.Quantity
	m.holds = append(m.holds, o.ID)
}

func (m *model) repeat(k *modelOrder, o Order) (Code, bool) {
	switch {
	case k.state == Cancelled:
		return Tombstoned, false
	case k.User != o.User || k.Quantity != o.Quantity:
		return Mismatch, false
	case m.mayFree(k):
		m.close(k, Expired)
	case k.state == Reserved && m.desired != DesiredCancelled && k.till != 0 && k.till <= m.now && k.due-m.now >= o.AttemptFor:
		k.attempt++
		k.till = m.now + o.AttemptFor
		m.watch(k, k.till)
		return Known, true
	}
	return Known, false
}

// foreign: the caller names an attempt that is not the current one.
func (k *modelOrder) foreign(attempt int) bool { return attempt > 0 && attempt != k.attempt }

func (m *model) accept(id string, attempt int) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state == Confirmed:
		return nil
	case k.state != Reserved:
		return ErrNotAllowed
	case k.foreign(attempt):
		return ErrAttemptOver
	}
	if k.till != 0 && k.due <= m.now {
		line := &m.holds
		if k.pays {
			line = &m.exts
		}
		*line = append([]string{id}, *line...)
	}
	k.till = 0
	return nil
}

func (m *model) confirm(id string, attempt int) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state == Confirmed || k.state == RefundDue:
		return nil
	case k.state != Reserved && k.state != Expired:
		return ErrNotAllowed
	case k.foreign(attempt):
		return ErrAttemptOver
	}
	if k.state == Expired {
		over := func() bool { return m.buyers[k.User]+k.Quantity > m.sale.BuyerLimit }
		m.freeDue(k.Quantity)
		if over() {
			m.freeDue(maxUnits + 1)
		}
		if m.free < k.Quantity || over() {
			k.state = RefundDue
			return nil
		}
		m.free -= k.Quantity
		m.buyers[k.User] += k.Quantity
	} else {
		m.reserved -= k.Quantity
	}
	m.confirmed += k.Quantity
	k.state, k.till = Confirmed, 0
	return nil
}

func (m *model) release(o Order, attempt int) error {
	k, ok := m.orders[o.ID]
	switch {
	case !ok:
		m.orders[o.ID] = &modelOrder{Order: o, state: Cancelled}
		return nil
	case k.state == Reserved && k.foreign(attempt):
		return ErrAttemptOver
	case k.state == Reserved:
		m.close(k, Released)
	case k.state == Confirmed && attempt == 0:
		m.close(k, Returned)
	case k.state != Released && k.state != Returned && k.state != Cancelled:
		return ErrNotAllowed
	}
	return nil
}

func (m *model) expire(id string) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state == Expired:
		return nil
	case k.state != Reserved || k.due > m.now:
		return ErrNotAllowed
	}
	m.close(k, Expired)
	return nil
}

func (m *model) extend(id string, by time.Duration) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state != Reserved:
		return ErrNotAllowed
	case k.pays:
		return nil
	case k.due <= m.now:
		return ErrNotAllowed
	}
	k.pays, k.due = true, max(k.due+min(by, m.sale.Hold), m.lastExt)
	m.lastExt = k.due
	m.exts = append(m.exts, id)
	return nil
}

func (m *model) stuck(id string) error {
	k, ok := m.orders[id]
	switch {
	case !ok:
		return ErrUnknownReservation
	case k.state != Reserved:
		return ErrNotAllowed
	}
	return nil
}

// restore puts an order back that the ledger does not know, with that long to
// go, or moves one on that it knows.
func (m *model) restore(o Order, state State, left time.Duration) error {
	k, ok := m.orders[o.ID]
	if ok {
		if k.state == Reserved && state == Confirmed {
			m.reserved, m.confirmed = m.reserved-k.Quantity, m.confirmed+k.Quantity
			k.state, k.till = Confirmed, 0
		}
		if k.state != state && (state == Confirmed || k.state == Cancelled) {
			return ErrNotAllowed
		}
		return nil
	}
	m.freeDue(o.Quantity)
	if m.free < o.Quantity {
		return ErrDeficit
	}
	if state == Confirmed {
		m.orders[o.ID] = &modelOrder{Order: o, state: Confirmed, attempt: 1}
		m.free, m.confirmed = m.free-o.Quantity, m.confirmed+o.Quantity
		m.buyers[o.User] += o.Quantity
		return nil
	}
	m.hold(o, m.now+left, 0)
	return nil
}

func (m *model) desire(d Desired) error {
	if m.desired == DesiredCancelled && d != DesiredCancelled {
		return ErrNotAllowed
	}
	m.desired = d
	return nil
}

func (m *model) sweep() (freed int64, ask []string) {
	before := m.free
	for _, k := range m.orders {
		if k.firstOpen() && !m.mayFree(k) && k.till <= m.now {
			k.lined = true
			m.watch(k, m.now+2*time.Second)
			ask = append(ask, k.ID)
		}
	}
	m.freeDue(maxUnits + 1)
	for len(m.asks) > 0 && m.asks[0].until <= m.now {
		a := m.asks[0]
		m.asks = m.asks[1:]
		k := m.orders[a.id]
		if k.state == Reserved && k.till != 0 && k.attempt == a.attempt {
			m.watch(k, m.now+2*time.Second)
			ask = append(ask, a.id)
		}
	}
	return m.free - before, ask
}
