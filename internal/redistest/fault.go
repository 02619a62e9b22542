package redistest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Faults is a set of faults that one proxy or several obey. Safe for use by
// several goroutines, at any time.
//
// Each fault names a command in upper case, such as "EVALSHA"; "" is any
// command but those by which a client sets up its connection and learns the
// topology (HELLO, AUTH, CLIENT, SELECT, READONLY, ASKING, CLUSTER, COMMAND,
// PING). It harms the next n of them, or with n = 0 all until Clear. Of several
// faults that match, the one set first is used.
type Faults struct {
	mu  sync.Mutex
	all []*Fault
}

// Fault is one that was set.
type Fault struct {
	set    *Faults
	name   string
	action action
	delay  time.Duration
	left   int // 0: no end
	hits   atomic.Int64
}

type action int

const (
	pass action = iota
	dropReply
	hangReply
	delayReply
	cutBefore
)

// DropReply lets the command reach the server, waits for its reply, and closes
// the client's connection instead of passing it on: executed, and not known.
func (f *Faults) DropReply(name string, n int) *Fault { return f.add(name, n, dropReply, 0) }

// HangReply is DropReply with a connection that stays open and silent.
func (f *Faults) HangReply(name string, n int) *Fault { return f.add(name, n, hangReply, 0) }

// DelayReply passes the reply on d late, and with it all later ones of that
// connection.
func (f *Faults) DelayReply(name string, n int, d time.Duration) *Fault {
	return f.add(name, n, delayReply, d)
}

// CutBefore closes the connection in place of passing the command on: not
// executed. Commands before it on the same connection still get their replies.
func (f *Faults) CutBefore(name string, n int) *Fault { return f.add(name, n, cutBefore, 0) }

// ClearFaults takes all faults of the set away.
func (f *Faults) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}

func (f *Faults) add(name string, n int, a action, d time.Duration) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := &Fault{set: f, name: name, action: a, delay: d, left: n}
	f.all = append(f.all, fault)
	return fault
}

// take is the fault that harms this command, or nil.
func (f *Faults) take(name string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.all, func(fault *Fault) bool {
		return fault.name == name || fault.name == "" && !setsUp(name)
	})
	if i < 0 {
		return nil
	}
	fault := f.all[i]
	if fault.left--; fault.left == 0 {
		f.all = slices.Delete(f.all, i, i+1)
	}
	return fault
}

func setsUp(name string) bool {
	switch name {
	case "HELLO", "AUTH", "CLIENT", "SELECT", "READONLY", "ASKING", "CLUSTER", "COMMAND", "PING":
		return true
	}
	return false
}

// Clear takes the fault away; what it holds back already stays held back.
func (f *Fault) Clear() {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.set.all = slices.DeleteFunc(f.set.all, func(other *Fault) bool { return other == f })
}

// Hits is how often the fault has done its harm. For DropReply and HangReply
// that is: how many commands were executed whose reply was withheld.
func (f *Fault) Hits() int64 { return f.hits.Load() }
