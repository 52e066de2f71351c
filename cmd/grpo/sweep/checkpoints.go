package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/compare"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/kernels"
)

// evalFlags are the flags of the verb.
type evalFlags struct {
	data, split, format  string
	problems, samples, k int
	device               string
}

// Checkpoints is the verb sweep-checkpoints.
func Checkpoints(p Program) *cobra.Command {
	var a evalFlags
	cmd := &cobra.Command{
		Use:   "sweep-checkpoints RUN [--data SOURCE] [--samples N --k K] [--format csv|markdown|json]",
		Short: "Evaluate every checkpoint of a run, and mark the best: pass@1, pass@k, best of k",
		Long: `Evaluates all checkpoints that keep_last and keep_best have kept, as the run evaluates, on its test_data or on --data. It marks
the best one by greedy pass@1 (ties: by the samples, then the earlier one) and prints how to continue from it. The score on the
problems that chose a checkpoint is optimistic: report its score on others.`,
		Example: `  grpo sweep-checkpoints runs/first
  grpo sweep-checkpoints runs/first --data tasks.jsonl --samples 8 --k 4 --format csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badinput.Errorf("found %d directories of runs, expected one; type grpo sweep-checkpoints RUN", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check(); err != nil {
				return err
			}
			return a.run(cmd, args[0], p)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&a.data, "data", "", "problems: a SOURCE as in 'grpo data'; if not given: the run's test_data")
	fl.StringVar(&a.split, "split", "test", "part of the data: train, test, validation or all")
	fl.IntVar(&a.problems, "problems", -1, "only the first N problems; 0: all; if neither this nor --data is given: as many as the run")
	fl.IntVar(&a.samples, "samples", -1, "sampled completions of each problem, at eval_temperature; 0: none; if not given: as the run")
	fl.IntVar(&a.k, "k", 0, "k of pass@k and best of k; 0: --samples")
	fl.StringVar(&a.format, "format", "", "a table for programs: csv, `markdown` or json; if not given, one for the terminal")
	fl.StringVar(&a.device, "device", "auto", "device: auto, cpu, or the card `cuda:N`")
	return cmd
}

func (a *evalFlags) check() error {
	if err := compare.CheckFormat(a.format); err != nil {
		return err
	}
	if err := dataset.CheckSplit(a.split); err != nil {
		return badinput.Errorf("--split: %w", err)
	}
	switch {
	case a.split != "test" && a.data == "":
		return badinput.Errorf("--split %s needs data; type --data SOURCE, too", a.split)
	case a.split != "test" && a.data == configs.DefaultPreset:
		return badinput.Errorf("--split %s: %s is evaluated on its held-out problems; leave --split out", a.split, a.data)
	case a.problems < -1 || a.k < 0 || a.samples < -1:
		return badinput.Errorf("found --problems %d, --samples %d and --k %d, expected 0 or more", a.problems, a.samples, a.k)
	case a.samples < 0 && a.k > 0:
		return badinput.Errorf("--k %d: type --samples N, too", a.k)
	case a.samples >= 0 && a.k > a.samples:
		return badinput.Errorf("--k: found %d, expected at most --samples, which is %d", a.k, a.samples)
	}
	return nil
}

// result is the evaluation of a checkpoint.
type result struct {
	step int
	dir  string
	grpo.Evaluation
}

func (a *evalFlags) run(cmd *cobra.Command, dir string, p Program) error {
	defer screen.IgnoreBrokenPipe()()
	steps, err := grpo.SavedSteps(dir)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return badinput.Errorf("%s has no checkpoints; expected the directory of a run that has saved some (save_every)", dir)
	}
	if err := a.alike(dir, steps); err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	show := screen.New(out, cmd.ErrOrStderr(), false, a.format != "")
	b, err := p.Open(ctx)(a.device, 0)
	if err != nil {
		return err
	}
	defer b.Close()
	var all []result
	for _, step := range steps {
		f, err := a.one(ctx, dir, step, b, show)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		all = append(all, f)
	}
	show.End()
	return a.print(out, dir, all)
}

// alike refuses to compare checkpoints whose held-out problems differ, as the run's data has changed.
func (a *evalFlags) alike(dir string, steps []int) error {
	if a.data != "" {
		return nil
	}
	past, err := provenance.Read(dir)
	if err != nil {
		return err
	}
	var first *configs.Config
	for _, step := range steps {
		cfg, _, err := past.At(step)
		if err != nil {
			return err
		}
		if first = cmp.Or(first, cfg); cfg.TestData != first.TestData || cfg.TestSplit != first.TestSplit {
			return badinput.Errorf("%s: step %d was made with other held-out problems (%s) than step %d (%s); type --data SOURCE to ask all "+
				"the same", dir, step, cmp.Or(cfg.TestData, "none"), steps[0], cmp.Or(first.TestData, "none"))
		}
	}
	return nil
}

// named words the error of missing problems: they are named by the run, relative to its working directory, or by --data.
func (a *evalFlags) named(err error) error {
	switch what, typed := strings.CutPrefix(err.Error(), "test_data "+a.data+": "); {
	case a.data == "" && errors.Is(err, dataset.ErrAbsent):
		return badinput.Errorf("%w; start in the directory where the run began, or type --data SOURCE", err)
	case a.data != "" && typed && badinput.Is(err):
		return badinput.Errorf("--data %s: %s", a.data, what)
	}
	return err
}

// one evaluates a checkpoint.
func (a *evalFlags) one(ctx context.Context, dir string, step int, b kernels.Backend, show *screen.Screen) (f result, err error) {
	saved, err := grpo.OpenSaved(dir, step, show)
	if err != nil {
		return f, err
	}
	if saved.Settings.TestData == "" && a.data == "" && !saved.Settings.Warmup() {
		return f, badinput.Errorf("%s: the run has no test_data; type --data SOURCE", dir)
	}
	e, err := saved.Evaluator(ctx, b, a.change)
	if err != nil {
		return f, a.named(err)
	}
	if err := configs.CheckEvaluated(len(e.HeldOut()), e.Settings().EvalSamples, "--samples ", "--problems"); err != nil {
		return f, errors.Join(err, e.Close())
	}
	f = result{step: step, dir: saved.Dir}
	f.Evaluation, err = e.Evaluate(ctx)
	return f, errors.Join(err, e.Close())
}

// change changes the run's settings by the flags. As nothing is trained, the embedded problems serve as training problems.
func (a *evalFlags) change(c *configs.Config) error {
	if a.data != "" {
		c.TestData, c.TestSplit, c.EvalProblems = a.data, a.split, 0
	}
	c.Data, c.DataSplit, c.ExpectedDatasetHash, c.DataSources = configs.DefaultPreset, "train", "", []string{}
	c.CacheDataset = c.CacheDataset && a.data == ""
	if c.TestData == c.Data {
		c.TestSplit = "test"
	}
	if a.problems >= 0 {
		c.EvalProblems = a.problems
	}
	if a.samples >= 0 {
		c.EvalSamples, c.EvalK = a.samples, cmp.Or(a.k, a.samples)
	}
	return c.Validate()
}

// compared compares two checkpoints: above 0 if f is better.
func compared(f, other result) int {
	sampled := func(f result) float64 {
		if f.Sampled == nil {
			return 0
		}
		return f.PassAt1
	}
	return cmp.Or(cmp.Compare(f.Greedy, other.Greedy), cmp.Compare(sampled(f), sampled(other)))
}

// best is the index of the best checkpoint, the earliest of equal ones, and how sure that is.
func best(all []result) (at int, says string) {
	alike := 0
	for i, f := range all {
		switch c := compared(f, all[at]); {
		case i == 0 || c > 0:
			at, alike = i, 1
		case c == 0:
			alike++
		}
	}
	step := all[at].step
	switch {
	case alike == 1:
		return at, fmt.Sprintf("step %d is best", step)
	case alike == len(all):
		return at, fmt.Sprintf("all %d checkpoints do the same, and the earliest, step %d, is marked", alike, step)
	}
	return at, fmt.Sprintf("%d checkpoints do best and the same, and the earliest, step %d, is marked", alike, step)
}

func (a *evalFlags) print(out io.Writer, dir string, all []result) error {
	top, says := best(all)
	if a.format != "" {
		text, err := a.table(all, top)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	heads := []string{"", "step", "pass@1, greedy"}
	sampled := slices.ContainsFunc(all, func(f result) bool { return f.Sampled != nil })
	if sampled {
		heads = append(heads, "sampled", fmt.Sprintf("pass@%d", all[top].K), fmt.Sprintf("best of %d", all[top].K))
	}
	t := output.NewTable(out, heads...)
	for i, f := range all {
		row := []string{" ", fmt.Sprint(f.step), stats.ShareText(f.Greedy, f.GreedyCI)}
		if i == top {
			row[0] = "*"
		}
		if f.Sampled != nil {
			row = append(row, fmt.Sprintf("%.3f", f.PassAt1), f.AtK(f.Problems), f.Best(f.Problems))
		}
		t.Row(row...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	at := all[top]
	fmt.Fprintf(out, "\n%s; %s. To go on from it, or to ask it:\n  grpo init_from=%s run_dir=DIR\n",
		plural.Of(at.Problems, "problem"), says, display.ShellQuote(at.dir))
	if adapter := filepath.Join(at.dir, "adapter"); exists(filepath.Join(adapter, "adapter_config.json")) {
		fmt.Fprintf(out, "  grpo eval --model %s --adapter %s\n", display.ShellQuote(modelOf(dir)), display.ShellQuote(adapter))
	}
	fmt.Fprintf(out, "  grpo sample --run %s --step %d --prompt TEXT\n", display.ShellQuote(dir), at.step)
	return nil
}

// table is the evaluations as JSON.
func (a *evalFlags) table(all []result, top int) ([]byte, error) {
	t := &compare.Table{Header: []string{"step", "problems", "pass@1_greedy", "pass@1_greedy_low", "pass@1_greedy_high", "pass@1_sampled", "k",
		"pass@k", "best_of_k", "best", "checkpoint"}}
	for i, f := range all {
		row := []any{f.step, f.Problems, f.Greedy, f.GreedyCI[0], f.GreedyCI[1], math.NaN(), nil, math.NaN(), math.NaN(), i == top, f.dir}
		if s := f.Sampled; s != nil {
			row[5], row[6], row[7], row[8] = s.PassAt1, s.K, float64(s.PassAtK), float64(s.BestOfK)
		}
		t.Rows = append(t.Rows, row)
	}
	if a.format == "json" {
		return t.JSON()
	}
	return t.Write(a.format)
}

// modelOf is the model of a run, as a word to type.
func modelOf(dir string) string {
	if r, err := compare.Read(dir); err == nil && !strings.ContainsAny(r.Settings.Model, " '\"") {
		return r.Settings.Model
	}
	return "MODEL"
}
