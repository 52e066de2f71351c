package sets

import (
	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/match"
)

// Flags are the flags that all verbs about data sets share.
type Flags struct {
	split       string
	collections []string
	cacheDir    string
	answerMatch string

	KeepColumns bool // for a reward file
}

// Register adds them to a verb; split is the default.
func (f *Flags) Register(cmd *cobra.Command, split string) {
	cmd.Flags().StringVar(&f.split, "split", split, "part of the data: train, test, validation, or all")
	cmd.Flags().StringSliceVar(&f.collections, "collection", nil, "read only these collections, such as taco,lcbv5")
	cmd.Flags().StringVar(&f.answerMatch, "answer-match", "", "how to compare answers if rows do not say: exact, regex, json_schema or math")
	cmd.Flags().StringVar(&f.cacheDir, "cache-dir", "", "folder for normalised data sets (default: in the user's cache)")
}

// options converts the flags; progress is shown on standard error.
func (f *Flags) options(cmd *cobra.Command) dataset.Options {
	return dataset.Options{Split: f.split, Collections: f.collections, CacheDir: f.cacheDir, AnswerMatch: match.By(f.answerMatch),
		KeepColumns: f.KeepColumns, Progress: screen.ReadProgress(cmd.ErrOrStderr())}
}

// WithSet opens the set that a verb's argument names, calls use, and closes it.
func WithSet(flags *Flags, empty bool, use func(*cobra.Command, *dataset.Set, string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		opt := flags.options(cmd)
		opt.Empty = empty
		set, err := dataset.Open(cmd.Context(), args[0], opt)
		if err != nil {
			return err
		}
		defer set.Close()
		return use(cmd, set, args[0])
	}
}
