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
		Short: "Runs over seeds: mean, deviation, standard error, least and most of each figure",
		Long: `Groups runs whose settings are equal but for the seed (and for what changes no result, as run_dir and threads), and whose model,
data and other files are the same by their SHA-256. Of each group it gives for every figure, after each evaluation and at the
end, the mean, the standard deviation (of so many runs less one), the standard error of the mean, the least and the greatest.`,
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
				tell(cmd.ErrOrStderr(), s.Notes)
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
