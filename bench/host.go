package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is one unit of utime and stime in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpuTime is the user and system time that a process has used, in steps of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading processor time (needs Linux): %w", err)
	}
	return parseStat(string(b))
}

// parseStat reads proc(5): the name in field 2 may hold anything, so fields count from its last ")".
func parseStat(stat string) (time.Duration, error) {
	const utime, stime = 14 - 3, 15 - 3 // by their numbers there; field 3 is the first after the name
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) <= stime {
		return 0, fmt.Errorf("%d fields in a process's stat", len(f))
	}
	user, err1 := strconv.ParseInt(f[utime], 10, 64)
	system, err2 := strconv.ParseInt(f[stime], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// host is what a reader must know about the machine, and nothing that names it.
type host struct {
	cores             int
	processor         string
	goVersion, system string
	redis             string
}

func describeHost(ctx context.Context, redisServer string) host {
	h := host{cores: runtime.NumCPU(), goVersion: runtime.Version(), system: runtime.GOOS + "/" + runtime.GOARCH, redis: "unknown"}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				h.processor = strings.TrimSpace(value)
				break
			}
		}
	}
	if out, err := exec.CommandContext(ctx, redisServer, "--version").Output(); err == nil {
		for _, f := range strings.Fields(string(out)) {
			if v, ok := strings.CutPrefix(f, "v="); ok {
				h.redis = v
			}
		}
	}
	return h
}

func readLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(r).ReadString('\n')
	return strings.TrimSpace(line), err
}
