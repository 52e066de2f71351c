// Package sets has the verbs that inspect, download and convert data sets, and the flags that all verbs about data sets share.
package sets

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// Command is the verb, with its subcommands.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Inspect, fetch and convert data sets",
		Long: `A SOURCE is a file of JSON Lines (.jsonl, .ndjson) or Parquet (.parquet), a folder of such files, or a
data set on the Hugging Face Hub (owner/name, owner/name@revision).

Downloads go to the Hub's standard cache: HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE apply.
docs/tasks.md describes the format of your own problems.`,
		Example: `  grpo data inspect tasks.jsonl
  grpo data fetch agentica-org/DeepCoder-Preview-Dataset
  grpo data convert agentica-org/DeepCoder-Preview-Dataset --collection taco --out taco.jsonl`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInspectCmd(), newFingerprintCmd(), newFetchCmd(), newConvertCmd(), newOverlapCmd())
	return cmd
}

func newFetchCmd() *cobra.Command {
	var flags Flags
	cmd := &cobra.Command{
		Use:     "fetch SOURCE",
		Example: `  grpo data fetch agentica-org/DeepCoder-Preview-Dataset`,
		Short:   "Download a data set from the Hub, and print the paths of its files",
		Long:    "Downloads what is not in the cache yet. An interrupted download continues where it stopped.",
		Args:    usage.Args("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt := flags.options(cmd)
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
	flags.Register(cmd, "all")
	return cmd
}

func newFingerprintCmd() *cobra.Command {
	var flags Flags
	cmd := &cobra.Command{
		Use:     "fingerprint SOURCE",
		Example: `  grpo data fingerprint problems.jsonl`,
		Short:   "Print the SHA-256 of a data set in normal form, and of each of its files",
		Long: `The first line is the fingerprint of the set, for expected_dataset_hash: the SHA-256 of what
'grpo data convert' writes. It does not depend on the format of the files.`,
		Args: usage.Args("SOURCE"),
		RunE: WithSet(&flags, false, func(cmd *cobra.Command, set *dataset.Set, source string) error {
			m, out := set.Manifest(), cmd.OutOrStdout()
			fmt.Fprintf(out, "%s  %s (%s, %s)\n", m.SHA256, source, plural.Of(m.Problems, "problem"), plural.Of(m.Tests, "test"))
			for _, f := range m.Files {
				fmt.Fprintf(out, "%s  %s\n", f.SHA256, f.Name)
			}
			warnRefused(cmd, set, source)
			return nil
		}),
	}
	flags.Register(cmd, "train")
	return cmd
}

// warnRefused says how many rows of a set are not among its problems.
func warnRefused(cmd *cobra.Command, set *dataset.Set, source string) {
	if n := len(set.Manifest().Refused); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s of %s refused, and left out; 'grpo data inspect --refused %[2]s' lists %[3]s\n", plural.Of(n, "row"),
			display.ShellQuote(source), plural.Pick(n, "it", "them"))
	}
}

func newConvertCmd() *cobra.Command {
	var flags Flags
	var path string
	cmd := &cobra.Command{
		Use:     "convert SOURCE [--out FILE]",
		Example: `  grpo data convert problems.parquet --out problems.jsonl`,
		Short:   "Write a data set as JSON Lines: one problem with its tests per line",
		Long:    "Rows of no known format are left out and counted; 'grpo data inspect --refused' lists them.",
		Args:    usage.Args("SOURCE"),
		RunE: WithSet(&flags, false, func(cmd *cobra.Command, set *dataset.Set, _ string) error {
			var err error
			if fill := func(w io.Writer) error { return set.WriteNormal(cmd.Context(), w) }; path == "" {
				err = fill(cmd.OutOrStdout())
			} else {
				err = destination.Place{Flag: "--out", Path: path}.Failed(atomicfile.Result(path, fill))
			}
			m := set.Manifest()
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s written, %s refused\n", plural.Of(m.Problems, "problem"), plural.Of(len(m.Refused), "row"))
			}
			return err
		}),
	}
	usage.CheckBefore(cmd, func(args []string) error {
		place := destination.Place{Flag: "--out", Path: path, Name: "problems.jsonl", Inputs: args}
		if err := place.Check(); err != nil {
			return err
		}
		if ext := filepath.Ext(path); ext == ".parquet" || ext == ".csv" || ext == ".gz" || ext == ".zst" {
			return badinput.Errorf("--out %s: it writes JSON Lines, not %s; type --out %s", path, ext,
				display.ShellQuote(strings.TrimSuffix(strings.TrimSuffix(path, ext), ".jsonl")+".jsonl"))
		}
		return nil
	})
	flags.Register(cmd, "train")
	cmd.Flags().StringVar(&path, "out", "", "file to write (default: standard output)")
	return cmd
}
