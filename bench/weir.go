package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/internal/sampleshop"
)

const (
	// startLimit bounds how long weir may take until its banner, stopLimit until it has drained.
	startLimit = 20 * time.Second
	stopLimit  = 20 * time.Second
	// Secrets of a stock that lives for one run, in a folder that is removed.
	sessionKey = "bench-session-key-of-one-run-only"
	adminToken = "bench-admin-token"
)

// buildWeir makes the program as "make build" does.
func buildWeir(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "weir")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "weir/cmd/weir")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building weir: %w\n%s", err, out)
	}
	return path, nil
}

// weirProcess is a weir with a stock of its own.
type weirProcess struct {
	server
	admin string // URL of the private listener
}

// settings is the configuration: the defaults, but the judge, which would ban the one caller of this
// load, and what the measure itself needs.
func settings(units int, captcha bool) string {
	text := fmt.Sprintf(`listen: {address: "127.0.0.1:0"}
admin: {address: "127.0.0.1:0"}
judge: {enabled: false}
sales:
  - {id: demo, version: 1, item: "1001", starts_at: now, ends_at: +720h, total: %d}
`, units)
	if !captcha {
		text += `routes:
  - {name: buy, methods: [POST], path: "/buy/{item}", kind: buy, captcha: false, auth: required}
`
	}
	return text
}

// startWeir starts the program in a new folder under dir and waits for its banner.
func startWeir(ctx context.Context, program, dir, config string) (*weirProcess, error) {
	home, err := os.MkdirTemp(dir, "w")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(home, "weir.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "serve", "-c", file)
	cmd.Dir, cmd.Stderr = home, log
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+home, "WEIR_JWT_SECRET="+sessionKey, "WEIR_ADMIN_TOKEN="+adminToken)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting weir: %w", err)
	}
	w := &weirProcess{server: server{pid: cmd.Process.Pid, stop: func() { stopWeir(cmd, log) }}}
	late := time.AfterFunc(startLimit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := w.readBanner(out); err != nil {
		w.stop()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("starting weir: %w\n%s", err, said)
	}
	return w, ctx.Err()
}

// readBanner finds both addresses, then lets the rest of stdout go.
func (w *weirProcess) readBanner(out io.Reader) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch f := strings.Fields(lines.Text()); {
		case len(f) == 2 && f[0] == "public":
			w.addr = strings.TrimPrefix(f[1], "http://")
		case len(f) == 2 && f[0] == "private":
			w.admin = f[1]
		}
		if w.addr != "" && w.admin != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return nil
		}
	}
	return errors.Join(errors.New("it ended without a banner"), lines.Err())
}

// stopWeir lets it drain, so that its redis-server ends with it.
func stopWeir(cmd *exec.Cmd, log io.Closer) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopLimit, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	late.Stop()
	log.Close()
}

// session is the cookie of a signed-in visitor.
func session(user string) (string, error) {
	token, err := sampleshop.NewSession([]byte(sessionKey), user, time.Hour, time.Now())
	return sampleshop.SessionCookie + "=" + token, err
}

// ban shuts a user out over the private API.
func (w *weirProcess) ban(ctx context.Context, user string) error {
	body, err := json.Marshal(map[string]any{"scope": "user", "value": user, "reason": "bench", "permanent": true})
	if err != nil {
		return err
	}
	resp, err := w.ask(ctx, http.MethodPost, "/api/v1/bans", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("banning: the private API answered %s", resp.Status)
	}
	return nil
}

// profileTo keeps a CPU profile of so many seconds.
func (w *weirProcess) profileTo(ctx context.Context, file string, seconds int) error {
	resp, err := w.ask(ctx, http.MethodGet, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("profiling: the private API answered %s", resp.Status), err)
	}
	return os.WriteFile(file, data, 0o644)
}

func (w *weirProcess) ask(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.admin+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(req)
}
