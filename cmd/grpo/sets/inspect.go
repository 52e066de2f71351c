package sets

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

func newInspectCmd() *cobra.Command {
	var flags Flags
	var template, example string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:     "inspect SOURCE",
		Example: `  grpo data inspect problems.jsonl`,
		Short:   "Count a data set by source and kind, list refused rows, show one prompt",
		Args:    usage.Args("SOURCE"),
		RunE: WithSet(&flags, true, func(cmd *cobra.Command, set *dataset.Set, source string) error {
			if asJSON {
				return writeSummaryJSON(cmd.OutOrStdout(), set)
			}
			prompts := prompt.Default()
			if template != "" {
				var err error
				if prompts, err = prompt.Load(template); err != nil {
					return err
				}
			}
			writeSummary(cmd.OutOrStdout(), set, source, all)
			return writeExample(cmd.OutOrStdout(), set, prompts, example)
		}),
	}
	flags.Register(cmd, "train")
	cmd.Flags().StringVar(&template, "template", "", "render the example prompt with this template")
	cmd.Flags().StringVar(&example, "problem", "", "show the problem with this id (default: the first)")
	cmd.Flags().BoolVar(&all, "refused", false, "list every refused row, not only the first for each reason")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the counts and the refused rows as one JSON object")
	cmd.MarkFlagsMutuallyExclusive("json", "template")
	cmd.MarkFlagsMutuallyExclusive("json", "problem")
	return cmd
}

func writeSummaryJSON(w io.Writer, set *dataset.Set) error {
	return output.NewJSONLines(w).Write(struct {
		dataset.Manifest
		dataset.Summary `json:"summary"`
	}{set.Manifest(), set.Summary()})
}

func writeSummary(out io.Writer, set *dataset.Set, source string, all bool) {
	m, sum := set.Manifest(), set.Summary()
	fmt.Fprintf(out, "%s: %s, %s, %.1f MB of tests\nfingerprint %s\n\n",
		source, plural.Of(m.Problems, "problem"), plural.Of(m.Tests, "test"), float64(m.Payload)/1e6, m.SHA256)
	t := output.NewTable(out, "source", "kind", "problems", "tests")
	for _, g := range sum.Groups {
		t.Row(display.Visible(g.Source), g.Kind.String(), fmt.Sprint(g.Problems), fmt.Sprint(g.Tests))
	}
	t.Flush()
	writeHistogram(out, "characters of the statement", &sum.Lengths)
	writeHistogram(out, "tests of a problem", &sum.Tests)

	fmt.Fprintf(out, "\nrefused rows: %d\n", len(m.Refused))
	for _, r := range sum.Refusals {
		fmt.Fprintf(out, "  %d × %s, first %s: %s\n", r.Rows, r.Reason, r.First.Where, display.Visible(r.First.Detail))
	}
	if all {
		for i := range m.Refused {
			fmt.Fprintf(out, "  %s\n", display.Visible(fmt.Sprint(&m.Refused[i])))
		}
	}
	if len(m.Unread) > 0 {
		fmt.Fprintf(out, "columns that are not read: %s\n", display.Visible(strings.Join(slices.Sorted(maps.Keys(m.Unread)), ", ")))
	}
}

func writeHistogram(out io.Writer, title string, h *dataset.Histogram) {
	fmt.Fprintf(out, "\n%s\n", title)
	most := max(slices.Max(h.Counts), 1)
	for i, n := range h.Counts {
		if n > 0 {
			fmt.Fprintf(out, "  %12s  %-40s %d\n", h.Label(i), strings.Repeat("█", (40*n+most-1)/most), n)
		}
	}
}

// writeExample prints a problem as a model reads it, so that mistakes in the data are seen. Control characters are made visible.
func writeExample(out io.Writer, set *dataset.Set, prompts *prompt.Builder, id string) error {
	problems := set.Problems()
	at := 0
	if id != "" {
		if at = slices.IndexFunc(problems, func(p data.Problem) bool { return p.ID == id }); at < 0 {
			return badinput.Errorf("no problem has the id %q", id)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	messages, err := prompts.Messages(&problems[at])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nexample: %s\n", display.Visible(problems[at].ID))
	for _, m := range messages {
		fmt.Fprintf(out, "──── %s\n%s\n", m.Role, display.Visible(m.Content))
	}
	return nil
}
