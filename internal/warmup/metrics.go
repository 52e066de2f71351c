package warmup

import (
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/learning"
	"github.com/seed-7879b91d/grpo/internal/plural"
)

// Metrics are the metrics of a step. They are the same in every repetition of the run.
type Metrics struct {
	Step      int `json:"step"`
	Epoch     int `json:"epoch"`
	Rows      int `json:"rows"`
	Sequences int `json:"n_datums"`
	Tokens    int `json:"tokens"` // trained on
	// Loss is the mean of −log p over these tokens; for pairs, the loss of dpo.
	Loss float64 `json:"loss"`
	*Preferences
	Entropy      float64 `json:"entropy"`
	GradNorm     float64 `json:"grad_norm"`
	LearningRate float64 `json:"lr"`
	Updated      bool    `json:"updated"`
	Trained      string  `json:"trained_sha256"`
}

// Preferences are statistics of pairs. A reward is dpo_beta·(log p − log ref).
type Preferences struct {
	PairLoss float64 `json:"pair_loss"`
	Margin   float64 `json:"reward_margin"`
	Accuracy float64 `json:"accuracy"` // the share of pairs whose chosen answer has the higher reward
	Chosen   float64 `json:"reward_chosen"`
	Rejected float64 `json:"reward_rejected"`
}

// took copies the metrics of an update. There are no recorded log-probabilities (0), so the mean of old − new is that of −log p.
func (m *Metrics) took(u learning.Update) {
	m.Tokens, m.Loss = u.Rows, u.Stats.KL1
	if m.Preferences != nil {
		m.Loss = m.PairLoss
	}
	m.Entropy, m.GradNorm, m.Updated = u.Entropy, u.GradNorm, u.Updated
}

// Parts are the step as parts of a line.
func (m Metrics) Parts(t Timing) []string {
	parts := []string{fmt.Sprintf("step %3d", m.Step), fmt.Sprintf("loss %.4f", m.Loss)}
	if p := m.Preferences; p != nil {
		parts = append(parts, p.parts()...)
	}
	norm := fmt.Sprintf("|g| %.3g", m.GradNorm)
	if !m.Updated {
		norm = "no update"
	}
	return append(parts, norm, fmt.Sprintf("lr %.2g", m.LearningRate), plural.Of(m.Tokens, "token"),
		fmt.Sprintf("%.0f tokens/s", t.TrainSec))
}

func (p *Preferences) parts() []string {
	return []string{fmt.Sprintf("accuracy %.3f", p.Accuracy), fmt.Sprintf("margin %s (chosen %s, rejected %s)",
		display.SignedReward(p.Margin), display.SignedReward(p.Chosen), display.SignedReward(p.Rejected))}
}

// HeldOut is an evaluation on held-out rows.
type HeldOut struct {
	Step   int `json:"step"`
	Rows   int `json:"rows"`
	Tokens int `json:"tokens"`
	// Loss is as in Metrics, and PerSequence the mean of −log p of whole conversations.
	Loss        float64  `json:"loss"`
	PerSequence *float64 `json:"loss_per_sequence,omitempty"`
	*Preferences
}

// Summary is the evaluation in a line.
func (h HeldOut) Summary() string {
	text := fmt.Sprintf("held-out after step %d: loss %.4f", h.Step, h.Loss)
	if h.PerSequence != nil {
		text += fmt.Sprintf(" per token, %.3f per conversation", *h.PerSequence)
	}
	if p := h.Preferences; p != nil {
		for _, part := range p.parts() {
			text += ", " + part
		}
	}
	return fmt.Sprintf("%s; %s, %s", text, plural.Of(h.Rows, "row"), plural.Of(h.Tokens, "token"))
}

// heldOutKind marks the lines of evaluations.
const heldOutKind = "held_out"

// Timing is how the time of a step was spent.
type Timing struct {
	Step     int     `json:"step"`
	Total    float64 `json:"total_s"`
	Train    float64 `json:"train_s"`
	TrainSec float64 `json:"trained_tokens_per_s"`
	Memory   float64 `json:"peak_memory_gb"`
}

// evaluateIfDue evaluates before the first step, after the last, and every eval_every steps.
func (t *Trainer) evaluateIfDue(ctx context.Context) error {
	n, every := t.HeldOutRows(), t.cfg.EvalEvery
	if n == 0 || every < 1 || t.step < t.evaluated || t.step%every != 0 && t.step != t.Steps() {
		return nil
	}
	if err := t.checkFinite(ctx); err != nil {
		return err
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = t.set.train + i
	}
	t.watcher.Phase("held-out", t.set.sequences(rows))
	h, err := t.lessons.evaluate(ctx, t, rows)
	if err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	h.Step = t.step
	if err := t.record.evaluation(h); err != nil {
		t.broken = err
		return err
	}
	t.recordHeldOut(&h)
	t.evaluated = t.step + 1
	t.watcher.Evaluated(h)
	return nil
}

// recordHeldOut records an evaluation. The first is kept for comparison while the rows are the same, as far as the number of tokens tells.
func (t *Trainer) recordHeldOut(h *HeldOut) {
	if t.last = h; t.first == nil || t.first.Rows != h.Rows || t.first.Tokens != h.Tokens {
		t.first = h
	}
}

// Watcher is told about the progress of a run, by the goroutine that trains.
type Watcher interface {
	Begun(how string)
	Phase(name string, units int)
	Advance(units, tokens int)
	StepDone(m Metrics, t Timing)
	Evaluated(h HeldOut)
	Saved(dir string)
	Warn(what string)
}
