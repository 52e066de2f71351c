// Package watch is the verb that shows runs while they go on: in a browser, or in the terminal.
package watch

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

type flags struct {
	listen    string
	tui, once bool
}

// Command is the verb.
func Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "watch [RUN|DIR …] [--listen ADDRESS | --tui]",
		Short: "Follow runs live, in a browser or in the terminal",
		Long: `Serves a page with all runs in the folders, and for each run its report, redrawn within a second of every step, and its samples
(see 'grpo samples'). It only reads files: the trainer may end, be killed and start again; new runs appear by themselves. It
writes nothing but the index of a large record of samples. The default folder is runs.

On an address that other machines reach, the pages need a ticket, which is part of the printed address. --tui shows one run in
the terminal: curves, time, advice, and the model's latest completions.

/metrics has the latest values of all runs for Prometheus; if a ticket is needed, /metrics?ticket=TICKET.`,
		Example: `  grpo watch
  grpo watch runs/first --tui
  grpo watch runs/first --tui --once
  grpo watch runs /data/more --listen 0.0.0.0:7770`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				paths = []string{"runs"}
			}
			if f.once && !f.tui {
				return badinput.Errorf("--once draws one picture in the terminal; type --tui --once")
			}
			if f.tui {
				return watchInTerminal(cmd.Context(), cmd.OutOrStdout(), paths, f.once)
			}
			return Serve(cmd.Context(), cmd.OutOrStdout(), f.listen, paths, "")
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7770", "`address` of the pages")
	cmd.Flags().BoolVar(&f.tui, "tui", false, "show one run in the terminal")
	cmd.Flags().BoolVar(&f.once, "once", false, "with --tui: draw once, and exit")
	cmd.MarkFlagsMutuallyExclusive("listen", "tui")
	return cmd
}
