// Package warmup has the verbs that train on rows before, or instead of, GRPO: grpo sft and grpo dpo, with their flags, help and
// output. The training itself is in internal/warmup.
package warmup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/screen"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/hub"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/warmup"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Machine is what the command line provides to the verbs.
type Machine struct {
	// Open opens a device.
	Open func(ctx context.Context, device string, threads int) (kernels.Backend, error)
	// Args accepts key=value words.
	Args cobra.PositionalArgs
	// Saves is set while an interruption saves the run.
	Saves *atomic.Bool
	// Stopped is the error of an interrupted run.
	Stopped func(what string) error
}

// flags are the flags of both verbs, the same as those of grpo.
type flags struct {
	method              string
	preset, file        string
	printConfig, dryRun bool
	quiet, json         bool
	machine             Machine
}

// Commands are the verbs.
func Commands(m Machine) []*cobra.Command {
	return []*cobra.Command{
		command(m, configs.SFT, &cobra.Command{
			Short: "Supervised fine-tuning (SFT) on conversations",
			Long: `Trains an adapter, or with train=full all weights, on the assistant's messages in conversations, in the model's own chat format.
Rows have "messages" (and "tools"), or "prompt" and "completion". data is a JSON Lines or Parquet file, a folder of them, or a data
set on the Hub. A share of the rows is held out (held_out), or test_data names held-out rows.

It makes a run like any other: the same command with run_dir=DIR resumes it, to the same bytes, and grpo init_from=DIR starts GRPO
from it.`,
			Example: `  grpo sft data=conversations.jsonl
  grpo sft data=conversations.jsonl model=Qwen/Qwen3-0.6B epochs=2 run_dir=runs/warm
  grpo sft data=conversations.jsonl --dry-run
  grpo init_from=runs/warm data=tasks.jsonl`,
		}),
		command(m, configs.DPO, &cobra.Command{
			Short: "Direct preference optimisation (DPO) on pairs of answers",
			Long: `Trains an adapter, or with train=full all weights, on rows with "prompt", "chosen" and "rejected", texts or lists of messages.
The reference policy is the policy at the start of the run: it scores each row once, so no second model is in memory. A share of the
rows is held out (held_out), or test_data names held-out rows.

It makes a run like any other: the same command with run_dir=DIR resumes it, to the same bytes, and grpo init_from=DIR starts GRPO
from it.`,
			Example: `  grpo dpo data=preferences.jsonl
  grpo dpo data=preferences.jsonl init_from=runs/warm dpo_beta=0.2 run_dir=runs/preferred
  grpo dpo data=preferences.jsonl --dry-run`,
		}),
	}
}

func command(m Machine, method string, cmd *cobra.Command) *cobra.Command {
	f := &flags{method: method, machine: m}
	cmd.Use, cmd.Args, cmd.RunE = method+" data=FILE [key=value …]", m.Args, f.run
	cmd.ValidArgsFunction = usage.Settings
	fl := cmd.Flags()
	fl.Var(usage.SeveralPresets(&f.preset), "preset", "preset of grpo to take the model from (default "+configs.DefaultPreset+
		", or the settings of the run that run_dir, resume or init_from names)")
	fl.StringVar(&f.file, "config-file", "", "YAML `file` of settings; it has a line extends: PRESET, or every setting")
	fl.BoolVar(&f.printConfig, "print-config", false, "print the resolved settings and stop")
	fl.BoolVar(&f.dryRun, "dry-run", false, "open model and data, show the plan and the first row, and stop")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, only warnings, advice and errors")
	fl.BoolVar(&f.json, "json", false, "print a line of JSON for each step")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, words []string) error {
	cfg, err := warmup.Resolve(f.method, configs.Source{Preset: f.preset, File: f.file, Overrides: words})
	if err != nil {
		return err
	}
	if f.printConfig {
		_, err := cmd.OutOrStdout().Write(cfg.Marshal())
		return err
	}
	defer screen.IgnoreBrokenPipe()()
	ctx := cmd.Context()
	b, err := f.machine.Open(ctx, cfg.Device, cfg.Threads)
	if err != nil {
		return err
	}
	defer b.Close()
	show := &stepScreen{Screen: screen.New(cmd.OutOrStdout(), cmd.ErrOrStderr(), f.quiet, f.json), out: cmd.OutOrStdout(),
		quiet: f.quiet, json: f.json}
	if f.quiet {
		ctx = hub.WithProgress(ctx, nil)
	}
	t, err := warmup.Open(ctx, cfg, b, show)
	if err != nil {
		return err
	}
	show.last = t.Steps()
	show.Expect(t.StepsDone(), show.last, -1)
	return errors.Join(f.train(ctx, cmd, t, show), t.Close())
}

func (f *flags) train(ctx context.Context, cmd *cobra.Command, t *warmup.Trainer, show *stepScreen) error {
	out, talk := cmd.OutOrStdout(), !f.quiet && !f.json
	if talk || f.dryRun {
		for _, line := range t.Plan() {
			screen.PrintLine(out, line)
		}
	}
	if f.dryRun {
		if t.StepsDone() > 0 {
			screen.PrintLine(out, "run: "+t.Origin())
		}
		fmt.Fprintf(out, "\n%s", display.Visible(t.FirstRow()))
		return nil
	}
	if t.StepsDone() >= t.Steps() && !talk {
		fmt.Fprintln(cmd.ErrOrStderr(), t.Origin())
	}
	f.machine.Saves.Store(true)
	err := t.Run(ctx)
	show.End()
	dir := t.Settings().RunDir
	if errors.Is(err, context.Canceled) {
		return f.machine.Stopped(t.Stopped())
	}
	if err == nil && talk {
		f.outcome(out, t, dir)
	}
	readers.HandOver(ctx, t.Settings(), dir, !talk, func(line string) { screen.PrintLine(cmd.ErrOrStderr(), line) })
	return err
}

// outcome prints the end of a run: held-out results before and after, and how to continue.
func (f *flags) outcome(out io.Writer, t *warmup.Trainer, dir string) {
	if first, last := t.Evaluations(); first != nil && first != last {
		fmt.Fprintln(out)
		table := output.NewTable(out, "held-out, "+plural.Of(last.Rows, "row"), fmt.Sprintf("before (step %d)", first.Step),
			fmt.Sprintf("after (step %d)", last.Step))
		row := func(name, format string, a, b float64) {
			table.Row(name, fmt.Sprintf(format, a), fmt.Sprintf(format, b))
		}
		if first.PerSequence != nil && last.PerSequence != nil {
			row("loss per token", "%.4f", first.Loss, last.Loss)
			row("loss per conversation", "%.3f", *first.PerSequence, *last.PerSequence)
		}
		if a, b := first.Preferences, last.Preferences; a != nil && b != nil {
			row("loss", "%.4f", first.Loss, last.Loss)
			row("accuracy", "%.3f", a.Accuracy, b.Accuracy)
			table.Row("margin", display.SignedReward(a.Margin), display.SignedReward(b.Margin))
		}
		table.Flush()
	}
	screen.PrintRunDir(out, dir)
	fmt.Fprintf(out, "to continue with GRPO, type grpo init_from=%s\n", display.Line(display.ShellQuote(dir)))
}

// stepScreen is a screen for the steps of a warm-up.
type stepScreen struct {
	*screen.Screen
	out         io.Writer
	quiet, json bool
	last        int
}

var _ warmup.Watcher = (*stepScreen)(nil)

// StepDone prints the step.
func (s *stepScreen) StepDone(m warmup.Metrics, t warmup.Timing) {
	s.End()
	s.Expect(m.Step, s.last, -1)
	switch {
	case s.json:
		s.Line(struct {
			warmup.Metrics
			Timing warmup.Timing `json:"timing"`
		}{m, t})
	case !s.quiet:
		parts := m.Parts(t)
		width := len(fmt.Sprint(s.last))
		parts[0] = fmt.Sprintf("step %*d/%d", width, m.Step, s.last)
		screen.PrintLine(s.out, strings.Join(parts, "  "))
	}
}

// Evaluated prints an evaluation.
func (s *stepScreen) Evaluated(h warmup.HeldOut) {
	s.End()
	switch {
	case s.json:
		s.Line(struct {
			HeldOut warmup.HeldOut `json:"held_out"`
		}{h})
	case !s.quiet:
		screen.PrintLine(s.out, h.Summary())
	}
}
