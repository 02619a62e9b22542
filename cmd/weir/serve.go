package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
)

func serve(ctx context.Context, c Config, secrets Secrets, out io.Writer, log *slog.Logger) error {
	return errors.New("serve is not wired yet")
}
