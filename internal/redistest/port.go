package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports come from below the range that Linux gives to outgoing connections
// (32768 up), so that a server which is down for a while finds its port free
// when it starts again.
const lowestPort, highestPort = 10_000, 32_000

// reservePort finds a free port and keeps it until the test ends, also against
// other test programs: who holds the abstract socket of that name has the port.
// The kernel frees the name when the program dies.
func reservePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		lock, err := net.Listen("unix", fmt.Sprintf("@weir-redistest-%d", port))
		if err != nil {
			continue
		}
		if probe, err := net.Listen("tcp", loopback(port)); err == nil {
			_ = probe.Close()
			t.Cleanup(func() { _ = lock.Close() })
			return port
		}
		_ = lock.Close()
	}
	t.Fatal("redistest: found no free port")
	return 0
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
