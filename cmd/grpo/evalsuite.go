package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/outcome"
	"github.com/seed-7879b91d/grpo/cmd/grpo/suites"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/lora"
)

// openSuite prepares the problems of the suite, if one is named, and sets what it prescribes.
func (f *evalFlags) openSuite(cmd *cobra.Command, words []string) (err error) {
	if err := f.suite.CheckCard(f.recorded); err != nil {
		return err
	}
	there := func() error { return f.checkExists(cmd.Context()) }
	if f.plan, err = f.suite.Open(cmd, f.data, f.problems, words, there); err != nil || f.plan == nil {
		return err
	}
	f.data, f.problems = f.plan.Tasks, 0 // all that were asked for
	f.plan.ApplyDefaults(suites.Requested{Samples: &f.samples, K: &f.k, MaxTokens: &f.maxToks, Temperature: &f.temperature})
	for _, flag := range []string{"samples", "k", "temperature", "problems"} {
		cmd.Flags().Lookup(flag).Changed = true // also for --run
	}
	return nil
}

// checkExists checks that the run, or the model with its adapter, exists. Judging the suite's solutions needs none.
func (f *evalFlags) checkExists(ctx context.Context) (err error) {
	switch {
	case f.suite.Oracle:
		return nil
	case f.recorded != "":
		_, err = grpo.OpenSaved(f.recorded, f.step, nil)
		return err
	case f.adapter != "":
		_, err = lora.ReadConfig(f.adapter)
	}
	if err == nil {
		_, err = grpo.ModelDir(ctx, f.model)
	}
	return err
}

// judgeSolutions judges the solutions of the suite.
func (f *evalFlags) judgeSolutions(cmd *cobra.Command, cfg *configs.Config) error {
	j, err := f.plan.Oracle(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(cmd.OutOrStdout(), j)
	}
	return j.Print(cmd.OutOrStdout())
}

func (f *evalFlags) grading() []grpo.Option {
	if f.plan == nil {
		return nil
	}
	return f.plan.Grading()
}

// card makes the card of a suite, and writes it to --card.
func (f *evalFlags) card(ctx context.Context, e *grpo.Evaluator, found *grpo.Evaluation, r *outcome.Report) (*suites.Card, error) {
	if f.plan == nil {
		return nil, nil
	}
	r.Data, r.Split = f.plan.String(), ""
	c, err := f.plan.Card(ctx, suites.CardInput{Evaluator: e, Evaluation: found, Report: r, Run: f.trained, RunDir: f.recorded})
	if err != nil {
		return nil, err
	}
	return c, c.Write(f.suite.Card)
}

// print prints the result, as tables or as JSON.
func (f *evalFlags) print(w io.Writer, r *outcome.Report, card *suites.Card) error {
	if f.json {
		return printJSON(w, struct {
			*outcome.Report
			Suite *suites.Card `json:"suite,omitempty"`
		}{r, card})
	}
	if err := r.Print(w); err != nil || card == nil {
		return err
	}
	return card.Print(w)
}
