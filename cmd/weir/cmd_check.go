package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCheck(a *app) *cobra.Command {
	var o overrides
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration and print the effective one",
		Long: `Reads the configuration as serve would, with flags and secrets, and prints the
effective one as YAML; of secrets it says only whether they are set. With faults
it prints all of them, each with file, line and key, and exits 1.`,
		Example: `  weir check
  weir check -c /etc/weir/config.yaml
  WEIR_SECRET=… WEIR_JWT_SECRET=… WEIR_ADMIN_TOKEN=… weir check --upstream http://10.0.0.5:8000`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, secrets, err := a.configured(o, cmd.Flags().Changed("config"))
			for _, w := range secrets.Warnings {
				fmt.Fprintf(a.errOut, "weir: warning: %s\n", w)
			}
			if err != nil {
				return err
			}
			out, err := Effective(c)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s\n# secrets, from files and the environment\n", out)
			for _, m := range secrets.Masked() {
				fmt.Fprintf(a.out, "#   %s\n", m)
			}
			return nil
		},
	}
	o.flags(cmd)
	return cmd
}
