package sampleshop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Values of Switches.HangUp.
const (
	HangUpBefore  = "before"         // the connection breaks before the body is read
	HangUpAfter   = "after"          // the order is created, the answer never comes
	HangUpNoOrder = "after-no-order" // the body is read, nothing is created, no answer
)

// Switches make the shop misbehave at POST /buy. The zero value behaves.
//
// "Every nth new reservation" counts Idempotency-Keys in the order in which
// this process first saw them. With n > 0 only the first POST of a chosen key
// is met, so that a retry finds a healthy shop; with 0 every POST is. A key
// that has its order already gets the order, whatever Refuse says. A refusal
// that frees the unit (402, 410, 422, or Settle "release") is remembered:
// later POSTs of that key get it again and never an order.
type Switches struct {
	Slow        time.Duration // wait between reading and answering
	Refuse      int           // status from 400 up, 0 = sell
	RefuseEvery int
	HangUp      string // "" or one of the constants above
	HangUpEvery int
	Settle      string // value of Weir-Settle on answers of /buy, "" = none
}

// Set throws the switches for every request that comes after it.
func (s *Shop) Set(sw Switches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switches = sw
}

// Seen tells how often a POST /buy was read in this process, per
// Idempotency-Key: more than one means that weir forwarded it again. The last
// 65 536 keys are kept.
func (s *Shop) Seen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.reads()
}

// plan is what the switches mean for one POST.
type plan struct {
	slow   time.Duration
	refuse int
	hangUp string
	settle string
}

// arrive notes a POST with the given key and decides how it will be met.
func (s *Shop) arrive(key string) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.seen.visit(key)
	sw := s.switches
	p := plan{slow: sw.Slow, settle: sw.Settle}
	if sw.Refuse != 0 && v.met(sw.RefuseEvery) {
		p.refuse = sw.Refuse
	}
	if sw.HangUp != "" && v.met(sw.HangUpEvery) {
		p.hangUp = sw.HangUp
	}
	return p
}

// read notes that the body of a POST was read.
func (s *Shop) read(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.read(key)
}

// setSwitches is POST /_switches: Switches as JSON, Slow in milliseconds.
func (s *Shop) setSwitches(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SlowMS      int64  `json:"slow_ms"`
		Refuse      int    `json:"refuse"`
		RefuseEvery int    `json:"refuse_every"`
		HangUp      string `json:"hang_up"`
		HangUpEvery int    `json:"hang_up_every"`
		Settle      string `json:"settle"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		http.Error(w, fmt.Sprintf("switches: %v", err), http.StatusBadRequest)
		return
	}
	s.Set(Switches{time.Duration(in.SlowMS) * time.Millisecond, in.Refuse, in.RefuseEvery, in.HangUp, in.HangUpEvery, in.Settle})
	w.WriteHeader(http.StatusNoContent)
}

// maxSeen bounds the keys remembered for Seen and for counting.
const maxSeen = 1 << 16

// seen remembers the newest keys. Not safe for concurrent use.
type seen struct {
	total int // new keys so far
	keys  *simplelru.LRU[string, *visits]
}

// visits of one key.
type visits struct {
	ordinal int // the how-manieth new key it is, from 1
	posts   int // that came
	reads   int // whose body was read
}

func newSeen() *seen {
	keys, err := simplelru.NewLRU[string, *visits](maxSeen, nil)
	if err != nil { // only for a size below 1
		panic(err)
	}
	return &seen{keys: keys}
}

func (s *seen) visit(key string) visits {
	v, ok := s.keys.Get(key)
	if !ok {
		s.total++
		v = &visits{ordinal: s.total}
		s.keys.Add(key, v)
	}
	v.posts++
	return *v
}

func (s *seen) read(key string) {
	if v, ok := s.keys.Get(key); ok {
		v.reads++
	}
}

func (s *seen) reads() map[string]int {
	out := make(map[string]int, s.keys.Len())
	for _, key := range s.keys.Keys() {
		if v, ok := s.keys.Peek(key); ok && v.reads > 0 {
			out[key] = v.reads
		}
	}
	return out
}

// met says whether a switch with the given "every" meets this visit.
func (v visits) met(every int) bool {
	if every <= 0 {
		return true
	}
	return v.posts == 1 && v.ordinal%every == 0
}
