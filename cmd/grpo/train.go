package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/outcome"
	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/serve"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/cmd/grpo/watch"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// trainFlags are the flags of grpo without a verb: training.
type trainFlags struct {
	preset, file        string
	printConfig, dryRun bool
	quiet, json         bool
}

func (f *trainFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.Var(usage.SeveralPresets(&f.preset), "preset",
		"settings to start from, one or several, such as tiny,dapo: "+strings.Join(configs.Presets(), ", ")+" (default "+configs.DefaultPreset+
			", or the settings of the run that run_dir, resume or init_from names)")
	fl.StringVar(&f.file, "config-file", "", "YAML `file` of settings; it has a line extends: PRESET, or every setting")
	fl.BoolVar(&f.printConfig, "print-config", false, "print the resolved settings and stop")
	fl.BoolVar(&f.dryRun, "dry-run", false, "open model and data, show the plan and the first prompt, and stop")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, only warnings, advice and errors")
	fl.BoolVar(&f.json, "json", false, "print a line of JSON for each step")
}

// trainArgs accepts key=value words, and refuses what looks like a verb that does not exist.
func trainArgs(cmd *cobra.Command, args []string) error {
	var mistakes []error
	for _, a := range args {
		switch {
		case strings.Contains(a, "="):
		case a == "train" || a == "run":
			mistakes = append(mistakes, badinput.Errorf("%s: training needs no verb; leave the word out and type grpo [key=value …]", a))
		case a == "version":
			mistakes = append(mistakes, badinput.Errorf("version: that is a flag; type grpo --version"))
		case configs.Key(a) != "":
			mistakes = append(mistakes, badinput.Errorf("%s: a setting has a value; type %s=VALUE", a, configs.Key(a)))
		case isDir(a):
			mistakes = append(mistakes, badinput.Errorf("%s: a setting names a directory; type run_dir=%s", a, display.ShellQuote(a)))
		case isFile(a):
			mistakes = append(mistakes, badinput.Errorf("%s: a setting names a file; type data=%s, or --config-file %[2]s", a,
				display.ShellQuote(a)))
		default:
			// Later words would be arguments of that verb: stop here.
			return errors.Join(append(mistakes, usage.UnknownVerb(cmd, a))...)
		}
	}
	return errors.Join(mistakes...)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func (f *trainFlags) run(cmd *cobra.Command, words []string) error {
	cfg, err := grpo.Resolve(configs.Source{Preset: f.preset, File: f.file, Overrides: words})
	if err != nil {
		return err
	}
	if f.printConfig {
		_, err := cmd.OutOrStdout().Write(cfg.Marshal())
		return err
	}
	beside, err := serve.Listen(cfg, f.dryRun, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer beside.Close()
	shown, err := watch.Listen(cfg, f.dryRun, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer shown.Close()
	defer screen.IgnoreBrokenPipe()()
	b, err := openDevice(cmd.Context())(cfg.Device, cfg.Threads)
	if err != nil {
		return err
	}
	defer b.Close()
	show := screen.New(cmd.OutOrStdout(), cmd.ErrOrStderr(), f.quiet, f.json)
	ctx := cmd.Context()
	if f.quiet {
		ctx = hub.WithProgress(ctx, nil)
	}
	t, err := beside.Open(ctx, cfg, b, show)
	if err != nil {
		return err
	}
	if show.Expect(t.StepsDone(), cfg.MaxSteps, cfg.EvalEvery); len(t.HeldOut()) == 0 {
		show.Expect(t.StepsDone(), cfg.MaxSteps, -1)
	}
	err = beside.During(ctx, func() error {
		return shown.During(ctx, t, func() error { return f.train(cmd, t, show) })
	})
	return errors.Join(err, t.Close())
}

func (f *trainFlags) train(cmd *cobra.Command, t *grpo.Trainer, show *screen.Screen) error {
	ctx, out, talk := cmd.Context(), cmd.OutOrStdout(), !f.quiet && !f.json
	if talk {
		for _, line := range t.Plan() {
			screen.PrintLine(out, line)
		}
	}
	if f.dryRun {
		if t.StepsDone() > 0 {
			screen.PrintLine(out, "run: "+t.Origin())
		}
		text, err := t.FirstPrompt()
		fmt.Fprintf(out, "\nthe first prompt:\n%s\n", display.Visible(text))
		return err
	}
	limit := t.Settings().MaxSteps
	nothing := limit >= 0 && t.StepsDone() >= limit
	savesOnInterrupt.Store(true)
	err := t.Run(ctx)
	show.End()
	if err == nil && nothing && !talk { // a script needs to know, too
		fmt.Fprintln(cmd.ErrOrStderr(), t.Origin())
	}
	if errors.Is(err, context.Canceled) {
		said, saved := t.Stopped()
		if err = stoppedError(said); !saved {
			return err // there is no run to look at
		}
	}
	if talk {
		printOutcome(out, t)
	}
	readers.HandOver(ctx, t.Settings(), t.RunDir(), f.quiet || f.json, func(line string) { screen.PrintLine(cmd.ErrOrStderr(), line) })
	return err
}

// stoppedError is the error of an interrupted run.
type stoppedError string

func (s stoppedError) Error() string { return string(s) }
func (s stoppedError) Unwrap() error { return context.Canceled }

// printOutcome prints the end of a run: held-out results before and after, and what changed.
func printOutcome(out io.Writer, trainer *grpo.Trainer) {
	first, last := trainer.Evaluations()
	if first != nil && last != nil && first != last {
		fmt.Fprintln(out)
		t := output.NewTable(out, "held-out, "+plural.Of(last.Problems, "problem"), fmt.Sprintf("before (step %d)", first.Step),
			fmt.Sprintf("after (step %d)", last.Step))
		t.Row("pass@1, greedy", stats.ShareText(first.Greedy, first.GreedyCI), stats.ShareText(last.Greedy, last.GreedyCI))
		if first.Sampled != nil && last.Sampled != nil {
			t.Row("pass@1, sampled", fmt.Sprintf("%.3f", first.PassAt1), fmt.Sprintf("%.3f", last.PassAt1))
			t.Row(fmt.Sprintf("pass@%d", last.K), first.AtK(first.Problems), last.AtK(last.Problems))
		}
		t.Row("has a program", fmt.Sprintf("%.3f", first.FormatRate), fmt.Sprintf("%.3f", last.FormatRate))
		t.Flush()
		if last.Change != nil {
			fmt.Fprintf(out, "\nchange of greedy pass@1: %s\n", last.Change)
		}
		if cfg := trainer.Settings(); cfg.Model == configs.DefaultPreset && cfg.TestData == cfg.Model {
			fmt.Fprintf(out, "\n%s\n", tiny.About)
		}
		for _, flip := range outcome.Flips(first, last, 2) {
			fmt.Fprintf(out, "\n%s\n%s\n  before, wrong:\n%s\n  after, right:\n%s\n",
				display.Visible(flip.Problem.ID), indent(flip.Problem.Statement), indent(flip.Before), indent(flip.After))
		}
	}
	if did := trainer.Autopilot(); did != "" {
		fmt.Fprintf(out, "\n%s\n", did)
	}
	screen.PrintRunDir(out, trainer.RunDir())
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(display.Visible(text)), "\n", "\n    ")
}
