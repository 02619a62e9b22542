package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

// asEmpty makes this program the empty handler, with a body of so many bytes.
const asEmpty = "-serve-empty="

func emptySize(args []string) (int, bool) {
	if len(args) != 2 || !strings.HasPrefix(args[1], asEmpty) {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimPrefix(args[1], asEmpty))
	return n, err == nil && n >= 0
}

// serveEmpty answers every request with the same bytes until stdin closes, which also happens when
// the parent dies. Its server has weir's default settings, so that deadlines and buffers cost both alike.
func serveEmpty(size int) int {
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		ReadTimeout:                  10 * time.Second,
		WriteTimeout:                 30 * time.Second,
		IdleTimeout:                  60 * time.Second,
		ReadBufferSize:               16 << 10,
		BodyLimit:                    64 << 10,
		Concurrency:                  100_000,
		DisablePreParseMultipartForm: true,
		DisableDefaultContentType:    true,
	})
	body := bytes.Repeat([]byte("x"), size)
	app.Use(func(c *fiber.Ctx) error { return c.Send(body) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "empty handler:", err)
		return 1
	}
	fmt.Println(ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = app.Shutdown()
	}()
	if err := app.Listener(ln); err != nil {
		fmt.Fprintln(os.Stderr, "empty handler:", err)
		return 1
	}
	return 0
}

// server is a program under load.
type server struct {
	addr string // host:port
	pid  int
	stop func()
}

// startEmpty runs the empty handler as a process of its own.
func startEmpty(ctx context.Context, size int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, asEmpty+strconv.Itoa(size))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the empty handler: %w", err)
	}
	s := &server{pid: cmd.Process.Pid, stop: func() { in.Close(); _ = cmd.Wait() }}
	line, err := readLine(out)
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("starting the empty handler: %w", err)
	}
	s.addr = line
	return s, nil
}
