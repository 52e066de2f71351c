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
		Short: "Browse what the model wrote in a run: any step, any problem, what changed",
		Long: `Serves pages with all completions on record of a run: by step and by problem, filtered by verdict and outcome, the problems that
were solved at one visit and not at the one before, and each group from near: the problem beside the best and the worst
completion, what differs in them, the test that failed, and the tokens by probability or advantage. The run may be going on.

A record of gigabytes, packed or not, is read once, with an index that is kept beside it as .rollouts.index and goes on with it; pages
show what was found so far meanwhile. An address that other machines reach wants a ticket, which is part of what is printed.`,
		Example: `  grpo samples runs/first
  grpo samples runs/first --listen 127.0.0.1:7771`,
		Args: usage.Takes("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return watch.Serve(cmd.Context(), cmd.OutOrStdout(), listen, args, "samples/")
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`address` of the pages; port 0 is any that is free")
	return cmd
}
