package compare

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/internal/compare"
)

// Summarize is the verb summarize.
func Summarize() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "summarize RUN… [--format csv|markdown|json]",
		Short: "Summarise runs over seeds: mean, deviation, standard error, minimum and maximum",
		Long: `Groups runs whose settings are the same except for the seed (and settings that change no result, such as run_dir and threads),
and whose model, data and other files have the same SHA-256. For each group it prints, for every figure after each evaluation and
at the end, the mean, the standard deviation (divided by n-1), the standard error of the mean, the minimum and the maximum.`,
		Example: `  grpo summarize runs/sweep/runs/*
  grpo summarize runs/seed-0 runs/seed-1 runs/seed-2 --format csv`,
		Args: atLeast("summarize", 1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if err := compare.CheckFormat(format); err != nil {
				return err
			}
			runs, err := compare.Open(dirs)
			if err != nil {
				return err
			}
			s := compare.Summarize(runs)
			text := []byte(s.Text())
			switch format {
			case "json":
				text, err = s.JSON()
			case "csv", "markdown":
				text, err = s.Table().Write(format)
				printNotes(cmd.ErrOrStderr(), s.Notes)
			}
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	addFormat(cmd, &format)
	return cmd
}
