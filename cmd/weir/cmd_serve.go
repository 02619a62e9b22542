package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

const serveLong = `Runs the gateway until SIGTERM or SIGINT, then drains and exits 0; a second
signal ends it at once.

Without a config.yaml in the current folder it runs on built-in defaults: a
sample shop, an open demo sale, an embedded Redis.`

const serveExample = `  weir                                          first look, open http://localhost:8080
  weir serve -c /etc/weir/config.yaml
  weir serve --listen :8081 --admin 127.0.0.1:9091      a second replica on the same data folder
  weir serve --redis 10.0.0.4:6379                      a replica on a Redis of your own
  WEIR_SECRET=… WEIR_JWT_SECRET=… WEIR_ADMIN_TOKEN=… weir serve --upstream http://10.0.0.5:8000`

func newServe(a *app) *cobra.Command {
	var o overrides
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the gateway",
		Long:    serveLong,
		Example: serveExample,
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, secrets, err := a.configured(o, cmd.Flags().Changed("config"))
			if err != nil {
				return err
			}
			log := newLogger(c.Log, a.errOut)
			for _, w := range secrets.Warnings {
				log.Warn("secret", "warning", w)
			}
			return serve(cmd.Context(), c, secrets, a.out, log)
		},
	}
	o.flags(cmd)
	return cmd
}

// newLogger writes JSON lines from the configured level on.
func newLogger(c LogConfig, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		panic(fmt.Sprintf("log level %q passed validation", c.Level))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
