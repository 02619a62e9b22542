package main

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newKeyVerbs(a *app) *cobra.Command {
	return group("key", "Print keys that others need", newKeyShop(a))
}

func newKeyShop(a *app) *cobra.Command {
	var o overrides
	cmd := &cobra.Command{
		Use:   "shop",
		Short: "Print the key with which the shop verifies weir's signatures",
		Long: `Prints the 32-byte key, in base64, with which the shop verifies the RFC 9421
signature (hmac-sha256) of each forwarded request. It is derived from the master
secret and gives nothing else away. Treat it as a secret of the shop.`,
		Example: `  weir key shop > shop.key
  WEIR_SECRET=… weir key shop`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, secrets, err := a.configured(o, cmd.Flags().Changed("config"))
			var faults Faults
			if errors.As(err, &faults) && secrets.Master.Set() && !faults.covers("secret_file") {
				err = nil // the other faults are those of serve
			}
			if err != nil {
				return err
			}
			if !secrets.Master.Set() {
				return errors.New("there is no master secret to derive from; set WEIR_SECRET or secret_file, made with: " + howToMake + "secret")
			}
			key := deriveKey(secrets.Master.Reveal(), labelShop)
			_, err = fmt.Fprintln(a.out, base64.StdEncoding.EncodeToString(key))
			return err
		},
	}
	o.flags(cmd)
	return cmd
}
