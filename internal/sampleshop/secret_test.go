package sampleshop

import (
	"bytes"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestAllReplicasAgreeOnOneSharedSecret(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		got := make([][]byte, 8)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], _ = SharedSecret(t.Context(), rdb) })
		}
		wg.Wait()
		for _, secret := range got {
			if len(secret) < 32 || !bytes.Equal(secret, got[0]) {
				t.Fatalf("secrets %q", got)
			}
		}
	})
}

func TestASecretThatCannotBeKeptIsAnError(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	if secret, err := SharedSecret(t.Context(), rdb); err == nil || secret != nil {
		t.Fatalf("secret %q, err %v", secret, err)
	}
}
