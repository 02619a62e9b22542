package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// ofVersion is a healthy server of some version, as far as the checks ask.
type ofVersion string

func (v ofVersion) Info(_ context.Context, section ...string) *redis.StringCmd {
	return redis.NewStringResult(map[string]string{
		"server":      "# Server\r\nredis_version:" + string(v) + "\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n",
		"memory":      "maxmemory_policy:noeviction\r\n",
		"persistence": "aof_enabled:1\r\n",
		"replication": "role:master\r\nconnected_slaves:0\r\n",
	}[strings.Join(section, " ")], nil)
}

func (ofVersion) ConfigGet(context.Context, string) *redis.MapStringStringCmd {
	return redis.NewMapStringStringResult(map[string]string{}, nil)
}

// TestStock_H12_AServerBeforeSevenIsRefused: before 7 the time moves on within
// a script, keys may expire between two of its calls (H-11, H-12), and TTLs
// are replicated as durations (H-9). So weir sells nothing on such a server.
func TestStock_H12_AServerBeforeSevenIsRefused(t *testing.T) {
	for version, good := range map[string]bool{
		"2.8.24": false, "3.2.12": false, "4.0.14": false, "5.0.14": false, "6.2.14": false, "6.9.240": false,
		"7.0.0": true, "7.2.5": true, "7.9.240": true, "8.0.1": true, "10.0.0": true,
	} {
		err := (&backing{}).checkServer(t.Context(), ofVersion(version), StockConfig{}, slog.New(slog.DiscardHandler))
		switch {
		case good && err != nil:
			t.Errorf("%s: %v", version, err)
		case !good && (err == nil || !strings.Contains(err.Error(), version+" is too old, right is 7.0 or later")):
			t.Errorf("%s: %v", version, err)
		}
	}
	for _, version := range []string{"", "seven", "v7.2"} {
		err := (&backing{}).checkServer(t.Context(), ofVersion(version), StockConfig{}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%q: %v", version, err)
		}
	}
}
