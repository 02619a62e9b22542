package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is a reading of who has used the processors; the difference of two tells what other programs
// took from a run.
type usage struct {
	at       time.Time
	all, our time.Duration // of the whole machine, of this process and the children that have ended
}

func readUsage() (usage, error) {
	u := usage{at: time.Now()}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("reading processor time (needs Linux): %w", err)
	}
	if u.all, err = parseMachineStat(string(stat)); err != nil {
		return u, err
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			return u, fmt.Errorf("reading own processor time: %w", err)
		}
		u.our += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u, nil
}

// parseMachineStat adds what all cores did of proc(5)'s stat, without idle, iowait and steal. Interrupts
// belong to it: the kernel counts most of loopback's work there and charges the sender with it, too.
func parseMachineStat(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, errors.New("/proc/stat does not begin with the line of all cores")
	}
	const user, nice, system, irq, softirq = 1, 2, 3, 6, 7
	var sum time.Duration
	for _, i := range []int{user, nice, system, irq, softirq} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// othersSince is the share of all cores that other programs have used, 0 to 1.
func (u usage) othersSince(before usage) float64 {
	theirs := (u.all - before.all) - (u.our - before.our)
	room := u.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	return max(0, theirs.Seconds()/room.Seconds())
}
