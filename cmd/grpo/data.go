package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/data/prompt"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// dataFlags are the flags that all verbs on data sets share.
type dataFlags struct {
	split       string
	collections []string
	cacheDir    string
}

func newDataCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Look at data sets, fetch and convert them",
		Long: `A SOURCE is a file of JSON Lines (.jsonl, .ndjson) or Parquet (.parquet), a folder of such files, or a
data set on the Hugging Face Hub (owner/name, owner/name@revision).

Downloads go to the Hub's standard cache: HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are heeded.
docs/tasks.md describes the format of your own tasks.`,
		Example: `  grpo data inspect tasks.jsonl
  grpo data fetch agentica-org/DeepCoder-Preview-Dataset
  grpo data convert agentica-org/DeepCoder-Preview-Dataset --collection taco --out taco.jsonl`,
		Args: badArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInspectCmd(), newFingerprintCmd(), newFetchCmd(), newConvertCmd())
	return cmd
}

func (f *dataFlags) register(cmd *cobra.Command, split string) {
	cmd.Flags().StringVar(&f.split, "split", split, "train, test, validation, or all")
	cmd.Flags().StringSliceVar(&f.collections, "collection", nil, "read these collections only, such as taco,lcbv5")
	cmd.Flags().StringVar(&f.cacheDir, "cache-dir", "", "where normalised data sets are kept (default: in the user's cache)")
}

// options are the flags as the packages know them, with progress shown on standard error.
func (f *dataFlags) options(cmd *cobra.Command) (dataset.Options, error) {
	client, err := hub.FromEnv()
	if err != nil {
		return dataset.Options{}, err
	}
	opt := dataset.Options{Split: f.split, Collections: f.collections, CacheDir: f.cacheDir, Hub: client}
	if errOut, ok := cmd.ErrOrStderr().(*os.File); ok && term.IsTerminal(int(errOut.Fd())) {
		client.Progress = progress(errOut)
		reading := progress(errOut)
		opt.Progress = func(done, total int64) { reading("reading", done, total) }
	}
	return opt, nil
}

// progress draws one bar after the other, a new one whenever the name changes.
func progress(w io.Writer) func(name string, done, total int64) {
	var bar *progressbar.ProgressBar
	var current string
	return func(name string, done, total int64) {
		if name != current {
			current = name
			bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name),
				progressbar.OptionShowBytes(true), progressbar.OptionThrottle(1e8),
				progressbar.OptionOnCompletion(func() { fmt.Fprintln(w) }))
		}
		_ = bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	}
}

func newFetchCmd() *cobra.Command {
	var flags dataFlags
	cmd := &cobra.Command{
		Use:     "fetch SOURCE",
		Example: `  grpo data fetch agentica-org/DeepCoder-Preview-Dataset`,
		Short:   "Download a data set of the Hub, and say where its files lie",
		Long:    "Downloads what is not in the cache yet. A download that was broken off goes on where it stopped.",
		Args:    badArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := flags.options(cmd)
			if err != nil {
				return err
			}
			files, err := dataset.Locate(cmd.Context(), args[0], opt)
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(cmd.OutOrStdout(), f.Path)
			}
			return nil
		},
	}
	flags.register(cmd, "all")
	return cmd
}

func newFingerprintCmd() *cobra.Command {
	var flags dataFlags
	cmd := &cobra.Command{
		Use:     "fingerprint SOURCE",
		Example: `  grpo data fingerprint problems.jsonl`,
		Short:   "Print the SHA-256 of a data set in normal form, and of each of its files",
		Long: `The first line is the fingerprint of the set, for expected_dataset_hash: the SHA-256 of what
'grpo data convert' writes. It does not depend on the format of the files.`,
		Args: badArgs(cobra.ExactArgs(1)),
		RunE: withSet(&flags, false, func(cmd *cobra.Command, set *dataset.Set, source string) error {
			m, out := set.Manifest(), cmd.OutOrStdout()
			fmt.Fprintf(out, "%s  %s (%d problems, %d tests)\n", m.SHA256, source, m.Problems, m.Tests)
			for _, f := range m.Files {
				fmt.Fprintf(out, "%s  %s\n", f.SHA256, f.Name)
			}
			return nil
		}),
	}
	flags.register(cmd, "train")
	return cmd
}

func newConvertCmd() *cobra.Command {
	var flags dataFlags
	var path string
	cmd := &cobra.Command{
		Use:     "convert SOURCE [--out FILE]",
		Example: `  grpo data convert problems.parquet --out problems.jsonl`,
		Short:   "Write a data set in normal form: JSON Lines, one problem with its tests on each",
		Long:    "Rows that fit no known shape are left out and counted; 'grpo data inspect' lists them.",
		Args:    badArgs(cobra.ExactArgs(1)),
		RunE: withSet(&flags, false, func(cmd *cobra.Command, set *dataset.Set, _ string) error {
			var err error
			if fill := func(w io.Writer) error { return set.WriteNormal(cmd.Context(), w) }; path == "" {
				err = fill(cmd.OutOrStdout())
			} else {
				err = atomicfile.Write(path, fill)
			}
			m := set.Manifest()
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d problems written, %d rows refused\n", m.Problems, len(m.Refused))
			}
			return err
		}),
	}
	flags.register(cmd, "train")
	cmd.Flags().StringVar(&path, "out", "", "the file to write (default: standard output)")
	return cmd
}

// withSet opens the set that a verb's argument names, and closes it afterwards.
func withSet(flags *dataFlags, empty bool, use func(*cobra.Command, *dataset.Set, string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		opt, err := flags.options(cmd)
		if err != nil {
			return err
		}
		opt.Empty = empty
		set, err := dataset.Open(cmd.Context(), args[0], opt)
		if err != nil {
			return err
		}
		defer set.Close()
		return use(cmd, set, args[0])
	}
}

func newInspectCmd() *cobra.Command {
	var flags dataFlags
	var template, example string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:     "inspect SOURCE",
		Example: `  grpo data inspect problems.jsonl`,
		Short:   "Count a data set by source and kind, list what was refused, show one prompt",
		Args:    badArgs(cobra.ExactArgs(1)),
		RunE: withSet(&flags, true, func(cmd *cobra.Command, set *dataset.Set, source string) error {
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
	flags.register(cmd, "train")
	cmd.Flags().StringVar(&template, "template", "", "word the example by this prompt template")
	cmd.Flags().StringVar(&example, "problem", "", "show the problem of this id (default: the first)")
	cmd.Flags().BoolVar(&all, "refused", false, "list every refused row, not only the first of each reason")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the counts and the refused rows as one JSON object")
	return cmd
}

func writeSummaryJSON(w io.Writer, set *dataset.Set) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		dataset.Manifest
		dataset.Summary `json:"summary"`
	}{set.Manifest(), set.Summary()})
}

func writeSummary(out io.Writer, set *dataset.Set, source string, all bool) {
	m, sum := set.Manifest(), set.Summary()
	fmt.Fprintf(out, "%s: %d problems, %d tests, %.1f MB of tests\nfingerprint %s\n\n", source, m.Problems, m.Tests, float64(m.Payload)/1e6, m.SHA256)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "source\tkind\tproblems\ttests")
	for _, g := range sum.Groups {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", g.Source, g.Kind, g.Problems, g.Tests)
	}
	table.Flush()
	writeHistogram(out, "characters of the statement", &sum.Lengths)
	writeHistogram(out, "tests of a problem", &sum.Tests)

	fmt.Fprintf(out, "\nrefused rows: %d\n", len(m.Refused))
	for _, r := range sum.Refusals {
		fmt.Fprintf(out, "  %d × %s, first %s: %s\n", r.Rows, r.Reason, r.First.Where, r.First.Detail)
	}
	if all {
		for i := range m.Refused {
			fmt.Fprintf(out, "  %v\n", &m.Refused[i])
		}
	}
	if len(m.Unread) > 0 {
		var columns []string
		for name := range m.Unread {
			columns = append(columns, name)
		}
		slices.Sort(columns)
		fmt.Fprintf(out, "columns that are not read: %s\n", strings.Join(columns, ", "))
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

// writeExample shows what a model is asked, so that one look tells whether the data is what it seems.
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
	fmt.Fprintf(out, "\nexample: %s\n", problems[at].ID)
	for _, m := range messages {
		fmt.Fprintf(out, "──── %s\n%s\n", m.Role, m.Content)
	}
	return nil
}
