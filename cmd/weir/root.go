package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func newRoot(a *app) *cobra.Command {
	root := newServe(a)
	root.Use = "weir"
	root.Short = "A flash-sale gateway; without a verb it serves"
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, _, _ := strings.Cut(err.Error(), ": strconv.") // how Go reads numbers helps nobody
		return usagef("%s; see: %s --help", text, cmd.CommandPath())
	})
	root.AddCommand(newServe(a), newCheck(a), newSaleVerbs(a), newBanVerbs(a), newLimitsVerbs(a), newKeyVerbs(a), newVersion(a))
	return root
}
