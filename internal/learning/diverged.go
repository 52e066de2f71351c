package learning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// ErrDiverged is the error of an update that left a policy which cannot be trained on.
var ErrDiverged = errors.New("the update left log-probabilities that are not finite")

// CheckUpdate fails if the update left a policy whose log-probabilities are not finite. Such a policy must not be saved.
func (l *Learner) CheckUpdate(u Update, cfg *configs.Config) error {
	if finite(u.Drift.KL2) && finite(u.OnPolicy) {
		return nil
	}
	return l.NonFiniteError(cfg)
}

// NonFiniteError is the error of a policy whose log-probabilities are not finite, with a remedy.
func (l *Learner) NonFiniteError(cfg *configs.Config) error {
	return badinput.Errorf("%w; %s", ErrDiverged, whatToLower(cfg, l.rate))
}

// Explain adds to the error of an update that would have overflowed which setting to change.
func (l *Learner) Explain(err error, cfg *configs.Config) error {
	if over := (*optim.OverflowError)(nil); errors.As(err, &over) {
		return badinput.Errorf("update: %w; %s", over, whatToLower(cfg, l.rate)) // in place of optim's own hint, which says "lower it"
	}
	return err
}

// Divergence returns the part of an error that a lower learning rate might have avoided; nil if it is another error.
func Divergence(err error) error {
	if over := (*optim.OverflowError)(nil); errors.As(err, &over) {
		return over
	}
	if errors.Is(err, ErrDiverged) {
		return ErrDiverged
	}
	return nil
}

// OutputDiverged reports whether the last output of a process says that it ended with an error that Divergence recognises.
func OutputDiverged(said string) bool {
	return strings.Contains(said, ErrDiverged.Error()) || strings.Contains(said, "weights and moments are as they were before the step")
}

// whatToLower says which setting to lower, and to what: the peak learning rate, not the scheduled one, as the setting is the peak.
// Weight decay is the cause where it takes more than a whole parameter off in a step: parameters then grow whatever the gradient is.
func whatToLower(cfg *configs.Config, rate float64) string {
	key, now, next := "learning_rate", rate, min(rate/10, 1e-3)
	if rate < 1 && cfg.WeightDecay*rate > 1 {
		key, now, next = "weight_decay", cfg.WeightDecay, 0.01
	}
	how := fmt.Sprintf("lower %s, which is %g now", key, now)
	if cfg.RunDir == "" {
		return how + ", and go on from the last checkpoint"
	}
	return fmt.Sprintf("%s: type %s run_dir=%s %s=%.2g to go on from the last checkpoint, if there is one", how, cfg.Verb(),
		display.ShellQuote(cfg.RunDir), key, next)
}

// IsFinite reports whether a policy still computes finite log-probabilities, on one of the datums that it was last trained on.
func (l *Learner) IsFinite(ctx context.Context, d model.Datum) (bool, error) {
	if len(d.Tokens) < 2 {
		return true, nil
	}
	progress := l.Policy.Progress
	defer func() { l.Policy.Progress = progress }()
	l.Policy.Progress = nil
	scores, err := l.Policy.Score(ctx, [][]int32{d.Tokens}, 1)
	return err == nil && !slices.ContainsFunc(scores[0], func(x float32) bool { return !finite(float64(x)) }), err
}
