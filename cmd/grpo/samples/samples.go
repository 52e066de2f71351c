// Package samples is the verb that shows the recorded completions of a run in a browser.
package samples

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/cmd/grpo/watch"
)

// Command is the verb.
func Command() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "samples RUN [--listen ADDRESS]",
		Short: "Browse the completions of a run: by step, by problem, and what changed",
		Long: `Serves pages with all recorded completions of a run: by step and by problem, filtered by verdict and outcome, the problems that
were solved at one visit but not at the one before, and each group in detail: the problem beside the best and the worst completion,
their differences, the test that failed, and the tokens by probability or advantage. The run may still be running.

A record of gigabytes, compressed or not, is indexed once; the index is a file beside it, .rollouts.index, and grows with it.
Meanwhile pages show what is indexed. On an address that other machines reach, the pages need a ticket, which is part of the
printed address.`,
		Example: `  grpo samples runs/first
  grpo samples runs/first --listen 127.0.0.1:7771`,
		Args: usage.Args("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return watch.Serve(cmd.Context(), cmd.OutOrStdout(), listen, args, "samples/")
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`address` of the pages; port 0: any free port")
	return cmd
}
