package sets

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/overlap"
)

func newOverlapCmd() *cobra.Command {
	var flags Flags
	var testSplit string
	cmd := &cobra.Command{
		Use:     "overlap TRAIN TEST",
		Example: `  grpo data overlap train.jsonl heldout.jsonl`,
		Short:   "Find the problems of one data set that are in another, or nearly",
		Long: `Compares statements, not ids: it finds equal statements (except for white space), and statements that share 70 %
of their sequences of eight words with another one. A run does the same with data and test_data.`,
		Args: usage.Args("TRAIN", "TEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			test := flags
			test.split = cmp.Or(testSplit, flags.split)
			return WithSet(&flags, false, func(cmd *cobra.Command, train *dataset.Set, _ string) error {
				return WithSet(&test, false, func(cmd *cobra.Command, held *dataset.Set, _ string) error {
					warnRefused(cmd, train, args[0])
					warnRefused(cmd, held, args[1])
					writeOverlap(cmd.OutOrStdout(), train.Problems(), held.Problems())
					return nil
				})(cmd, args[1:])
			})(cmd, args[:1])
		},
	}
	flags.Register(cmd, "train")
	cmd.Flags().StringVar(&testSplit, "test-split", "", "split of TEST, if it is not --split")
	return cmd
}

func writeOverlap(out io.Writer, train, held []data.Problem) {
	found, same, near := overlap.Find(train, held), 0, 0
	shown := screen.Sanitizer(out)
	for i := range held {
		switch {
		case found.Same[i] >= 0:
			same++
			fmt.Fprintf(out, "%s is %s\n", shown(held[i].ID), shown(train[found.Same[i]].ID))
		case found.Near[i] >= 0:
			near++
			share := 100 * found.Like[i]
			if share < 100 { // less than all is never rounded to 100 %
				share = min(share, 99)
			}
			fmt.Fprintf(out, "%s is %.0f %% of %s\n", shown(held[i].ID), share, shown(train[found.Near[i]].ID))
		}
	}
	fmt.Fprintf(out, "of %d problems %d are among the %d of the other set, and %d nearly\n", len(held), same, len(train), near)
}
