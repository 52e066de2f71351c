// Package sweep has the verbs that make several runs of one command, and that evaluate the checkpoints of a run. Each run is a
// process of its own, so that a crash affects no other.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/bench"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/destination"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sweep"
)

// Program is what the verbs need of the main program.
type Program struct {
	Open    func(ctx context.Context) bench.Opener
	Stopped func(said string) error // the error of an interrupted verb
	Saves   func(bool)              // whether an interruption saves the state
}

// flags are the flags of the verb sweep.
type flags struct {
	dir, file, preset, base string
	random                  int
	seed                    uint64
	halving, dryRun         bool
	rungs, atOnce           int
	without, with           []string
}

// Command is the verb sweep.
func Command(p Program) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "sweep [key=value,value …] [--file FILE] [--dir DIR] [--random N] [--halving] [--at-once N]",
		Short: "Train a run for each combination of settings, and compare the runs",
		Long: `Makes a run for each combination of the values: key=a,b has two, seed=0..2 three. Brackets enclose a value with commas of its
own, lora_targets=[q_proj,v_proj],[o_proj]. Other settings come from --preset or --config-file, as for a run. --random N draws N
combinations, with the seed --random-seed; ranges may then be of any numbers, 1e-5..1e-3, log-uniform for rates.

--halving is successive halving: all runs do a part of max_steps, the better half by held-out pass@1 resumes to twice the steps, and so
on: --rungs 3 are a quarter, a half, and all. A run whose numbers become non-finite is dropped. If a run fails otherwise, the race waits
for it; grpo sweep --dir DIR --without NAME takes it out. --without takes a run out of any sweep, until --with NAME.

The directory has sweep.json (the progress of each run), the runs in runs/, their output in logs/, and at the end results.csv and
comparison.html. ^C saves and stops; grpo sweep --dir DIR resumes, also after kill -9. If a run fails, the sweep reports it and
continues with the others; grpo sweep --dir DIR tries it again. Runs take turns, or --at-once N share the cores; the plan (--dry-run)
shows what they need.`,
		Example: `  grpo sweep learning_rate=1e-4,2e-4 seed=0..2 max_steps=40 --dir runs/rates
  grpo sweep --dir runs/rates
  grpo sweep learning_rate=1e-5..1e-3 seed=0..9 max_steps=40 --random 8 --halving --dry-run`,
		RunE: func(cmd *cobra.Command, words []string) error { return f.run(cmd, words, p) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "dir", "", "`directory` of the sweep; if not given: a new one below runs, named by the time")
	fl.StringVar(&f.file, "file", "", "YAML `file` of keys and their values, like key=value words; may have a line extends: PRESET")
	fl.Var(usage.SeveralPresets(&f.preset), "preset", "settings to start from, as for a run (default "+configs.DefaultPreset+")")
	fl.StringVar(&f.base, "config-file", "", "YAML `file` of settings to start from")
	fl.IntVar(&f.random, "random", 0, "run N combinations drawn at random; 0: run all")
	fl.Uint64Var(&f.seed, "random-seed", 0, "seed of --random")
	fl.BoolVar(&f.halving, "halving", false, "successive halving: drop the worse half at each rung")
	fl.IntVar(&f.rungs, "rungs", 3, "number of rungs of --halving")
	fl.IntVar(&f.atOnce, "at-once", 1, "number of runs at a time")
	fl.StringArrayVar(&f.without, "without", nil, "take these runs out: `NAME`[,NAME], as in the plan")
	fl.StringArrayVar(&f.with, "with", nil, "put back these runs that were taken out: `NAME`[,NAME]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the plan and stop")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, words []string, p Program) error {
	defer screen.IgnoreBrokenPipe()()
	switch given := cmd.Flags().Changed; {
	case given("rungs") && !f.halving:
		return badinput.Errorf("--rungs needs --halving; type --halving, too")
	case given("random-seed") && f.random == 0:
		return badinput.Errorf("--random-seed needs --random; type --random N, too")
	}
	plan, err := f.plan(words)
	if err != nil {
		return err
	}
	if f.dir == "" {
		if plan == nil {
			return badinput.Errorf("found nothing to do; type grpo sweep key=value,value, or grpo sweep --dir DIR to resume one")
		}
		f.dir = filepath.Join("runs", "sweep_"+time.Now().Format("2006_01_02-15_04_05"))
	}
	if !utf8.ValidString(f.dir) {
		return badinput.Errorf("--dir: found bytes that are not UTF-8, and run_dir of its runs may have none") // as every setting
	}
	if err := (destination.Place{Flag: "--dir", Path: f.dir, IsDir: true}).Check(); err != nil {
		return err
	}
	out, ctx := cmd.OutOrStdout(), cmd.Context()
	j, err := f.journal(out, plan)
	if err != nil {
		return err
	}
	defer j.Close()
	all, err := resolveSettings(j)
	if err != nil {
		return err
	}
	share, err := f.describe(ctx, out, j, all, p.Open(ctx))
	if err != nil || f.dryRun {
		return err
	}
	if err := j.Begin(); err != nil {
		return err
	}
	p.Saves(true)
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	d := sweep.Driver{Journal: j, AtOnce: f.atOnce, Say: say, Run: childRuns{j, share}.run}
	if err := d.Drive(ctx); err != nil {
		if ctx.Err() != nil {
			said := fmt.Sprintf("stopped, and the runs are saved; grpo sweep --dir %s resumes", display.ShellQuote(f.dir))
			return errors.Join(p.Stopped(said), dropInterruption(err))
		}
		return f.unwritten(err)
	}
	return f.unwritten(writeResults(out, j))
}

// journal opens the journal, in the working directory that the sweep began in.
func (f *flags) journal(out io.Writer, plan *sweep.Plan) (*sweep.Journal, error) {
	open := sweep.Claim
	if f.dryRun {
		open = sweep.Open
	}
	j, err := open(f.dir, plan)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(j.Readmit(f.with), j.Exclude(f.without)); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	elsewhere, err := j.Chdir()
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if elsewhere {
		fmt.Fprintf(out, "in %s, where the sweep was begun\n", display.Line(j.Directory))
	}
	return j, nil
}

// unwritten adds to the error of a full disk what to do.
func (f *flags) unwritten(err error) error {
	if !disk.IsFull(err) {
		return err
	}
	return fmt.Errorf("%w; %s, then type grpo sweep --dir %s to resume", err, disk.Remedy(err), display.ShellQuote(f.dir))
}

// dropInterruption drops the error of an interruption.
func dropInterruption(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// plan is the plan of the words and the flags; nil if they give none.
func (f *flags) plan(words []string) (*sweep.Plan, error) {
	if f.file != "" {
		more, extends, err := configs.Lists(f.file)
		if err != nil {
			return nil, err
		}
		words = append(more, words...)
		if f.preset = cmp.Or(f.preset, extends); f.preset == "" {
			f.preset = configs.DefaultPreset
		}
	}
	if f.random < 0 || f.atOnce < 1 || f.rungs < 2 {
		return nil, badinput.Errorf("found --random %d, --at-once %d and --rungs %d, expected at least 0, 1 and 2", f.random, f.atOnce, f.rungs)
	}
	if len(words) == 0 {
		if f.preset != "" || f.base != "" || f.random > 0 || f.halving {
			return nil, badinput.Errorf("found no settings with values; type grpo sweep key=value,value, or grpo sweep --dir DIR alone to resume")
		}
		return nil, nil
	}
	source := configs.Source{Preset: f.preset, File: f.base}
	if f.preset == "" && f.base == "" {
		source.Preset = configs.DefaultPreset
	}
	base, err := configs.Load(source)
	if err != nil {
		return nil, err
	}
	plan := &sweep.Plan{Words: words, Random: f.random, Seed: f.seed}
	plan.SetBase(base.Marshal())
	if f.halving {
		plan.Rungs, err = f.ladder(base, words)
	}
	return plan, err
}

// ladder are the rungs of a race, which needs the same number of steps for all runs, and evaluations.
func (f *flags) ladder(base *configs.Config, words []string) ([]int, error) {
	var fixed []string
	for _, w := range words {
		if key, _, _ := strings.Cut(w, "="); slices.Contains([]string{"max_steps", "data", "test_data", "eval_every"}, key) {
			fixed = append(fixed, w)
		}
	}
	cfg, err := configs.Load(configs.Source{Base: base, Overrides: fixed})
	if err != nil {
		return nil, badinput.Errorf("--halving: %w; give one value", err)
	}
	switch least := 1 << (min(f.rungs, 62) - 1); {
	case cfg.MaxSteps < least:
		return nil, badinput.Errorf("--halving: %d rungs need max_steps of %d or more, found %d", f.rungs, least, cfg.MaxSteps)
	case cfg.TestData == "" || cfg.EvalEvery < 1:
		return nil, badinput.Errorf("--halving judges by held-out problems; give test_data, and an eval_every of 1 or more")
	}
	return sweep.Rungs(cfg.MaxSteps, f.rungs), nil
}

// resolveSettings resolves the settings of all runs in the sweep, so that errors are found before the first starts.
func resolveSettings(j *sweep.Journal) (all []*configs.Config, err error) {
	base, err := os.CreateTemp("", "grpo-sweep-*.yaml")
	if err != nil {
		return nil, err
	}
	defer os.Remove(base.Name())
	if _, err = base.Write(j.Base()); err != nil {
		return nil, errors.Join(err, base.Close())
	}
	if err = base.Close(); err != nil {
		return nil, err
	}
	var mistakes []error
	for _, e := range j.Runs {
		if e.State == sweep.Removed {
			continue
		}
		cfg, err := configs.Load(configs.Source{File: base.Name(), Overrides: e.Words})
		if err == nil {
			err = provenance.CheckMethod(cfg, "grpo")
		}
		if err != nil {
			mistakes = append(mistakes, badinput.Errorf("%s: %s", e.Name, strings.ReplaceAll(err.Error(), base.Name(), sweep.BaseFile)))
			if len(mistakes) == 3 {
				break
			}
		}
		all = append(all, cfg)
	}
	return all, errors.Join(mistakes...)
}

// failing reports whether a run failed.
func failing(e sweep.Entry) bool { return e.State == sweep.Failed }

// writeResults writes and prints the results.
func writeResults(out io.Writer, j *sweep.Journal) error {
	c, table, err := j.Results()
	if err != nil {
		return err
	}
	failed, again := j.Failures()
	next := ""
	if again > 0 {
		next = "; " + j.RetryHint(again)
	}
	if c == nil {
		return fmt.Errorf("%s failed; %s%s why%s", plural.Pick(failed, "the one run", fmt.Sprintf("all %d runs", failed)),
			j.LogPath(j.Runs[max(0, slices.IndexFunc(j.Runs, failing))].Name), plural.Pick(failed, " says", " and its like say"), next)
	}
	text, err := table.Write("csv")
	if err == nil {
		err = atomicfile.ResultBytes(j.ResultsPath(), text)
	}
	if err != nil {
		return err
	}
	page, err := c.Page().HTML()
	if err == nil {
		err = atomicfile.ResultBytes(j.PagePath(), page)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\nthe results are in %s, the curves in %s\n", c.Text(), j.ResultsPath(), j.PagePath())
	if failed > 0 {
		return fmt.Errorf("%d of %s failed, and the others are done; the logs are in %s%s", failed, plural.Of(len(j.Runs), "run"),
			j.LogsDir(), next)
	}
	return nil
}
