package grpo

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Plan describes in a few lines what the run will do and the memory it will hold.
func (t *Trainer) Plan() []string {
	cfg := t.cfg
	steps := "until it is stopped"
	if cfg.MaxSteps >= 0 {
		steps = plural.Of(cfg.MaxSteps, "step")
	}
	left := ""
	if n := t.problems.Near; n > 0 {
		left = fmt.Sprintf("; %d of these nearly equal to a training problem", n)
	}
	if t.problems.Dropped != (data.Dropped{}) {
		left += "; filters: " + t.problems.Dropped.String()
	}
	held := fmt.Sprintf("%d held out", len(t.HeldOut()))
	if cfg.TestData == "" {
		held = "none held out, so no evaluation (test_data=FILE names held-out problems)"
	}
	trained := fmt.Sprintf("LoRA rank %d, %.2f M trained", cfg.LoRARank, float64(t.policy.TrainableCount())/1e6)
	if t.policy.full {
		trained = "all of them trained"
	}
	return []string{
		fmt.Sprintf("model: %s, %.1f M weights in %.2f GB; %s",
			cfg.Model, float64(t.policy.WeightCount())/1e6, float64(t.policy.WeightBytes())/1e9, trained),
		"numbers: " + t.numbers(),
		fmt.Sprintf("data: %s to train on, %s; prompts of up to %d tokens%s",
			plural.Of(t.pool.Len(), "problem"), held, t.sampling.longestPrompt, left),
		fmt.Sprintf("step: %s of up to %d tokens%s, %s%s",
			cfg.Batch(), cfg.MaxTokens, t.conversations, steps, cfg.Rise(cfg.MaxSteps)),
		"training: " + t.sampling.memory.Why,
		fmt.Sprintf("memory: %s", t.sampling.memory),
		t.sampling.engine.Plan.String(),
		fmt.Sprintf("sandbox: %s", t.judging),
	}
}

// numbers describes precision, order of sums and backend.
func (t *Trainer) numbers() string {
	order := "order=" + t.cfg.Order
	if kernels.Emulates(t.backend) {
		order += " (this processor has no tile unit: the same bits, but slower)"
	}
	if t.cfg.Quantize != "none" {
		order = "quantize=" + t.cfg.Quantize + ", " + order
	}
	return fmt.Sprintf("precision=%s, %s, %s; %s", t.cfg.Precision, order, t.cfg.AlsoRounded(), t.backend.Name())
}

// FirstPrompt is the text of the first prompt that the run will use.
func (t *Trainer) FirstPrompt() (string, error) {
	cursor := t.pool.Cursor()
	first := t.pool.Take(1)
	if _, err := t.pool.Restore(cursor); err != nil {
		return "", err
	}
	_, text, err := t.policy.Prompt(context.Background(), &first[0])
	return text, err
}
