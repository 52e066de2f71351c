package learning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/look"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/optim"
)

// ErrLost is an update after which there is nothing to go on with.
var ErrLost = errors.New("the update left log-probabilities that are not finite")

// Whole refuses an update that moved the policy to where it computes no numbers any more; nothing may be saved of it.
func (l *Learner) Whole(u Update, cfg *configs.Config) error {
	if finite(u.Drift.KL2) && finite(u.OnPolicy) {
		return nil
	}
	return l.Fail(cfg)
}

// Fail is the error of a policy that computes no numbers any more.
func (l *Learner) Fail(cfg *configs.Config) error {
	return badinput.Errorf("%w; %s", ErrLost, lower(cfg, l.rate))
}

// Explain says of an update that was not made, because it would have left numbers that are infinite, what to type instead.
func (l *Learner) Explain(err error, cfg *configs.Config) error {
	if over := (*optim.OverflowError)(nil); errors.As(err, &over) {
		return badinput.Errorf("update: %w; %s", over, lower(cfg, l.rate)) // instead of "lower it", which optim says behind it
	}
	return err
}

// Lost is the update in an error that a lower learning rate might not have failed with; nil where it is another error.
func Lost(err error) error {
	if over := (*optim.OverflowError)(nil); errors.As(err, &over) {
		return over
	}
	if errors.Is(err, ErrLost) {
		return ErrLost
	}
	return nil
}

// Told reports of what a process said last whether it ended as Lost tells of an error: with an update that its settings led it to.
func Told(said string) bool {
	return strings.Contains(said, ErrLost.Error()) || strings.Contains(said, "weights and moments are as they were before the step")
}

// lower is what to type in place of a peak of the learning rate, which is what the setting says; of a schedule's share of it nobody types.
// A decay that takes more off the parameters than there is, at a rate that is none too high, makes them larger, whatever they learn.
func lower(cfg *configs.Config, rate float64) string {
	key, now, next := "learning_rate", rate, min(rate/10, 1e-3)
	if rate < 1 && cfg.WeightDecay*rate > 1 {
		key, now, next = "weight_decay", cfg.WeightDecay, 0.01
	}
	how := fmt.Sprintf("lower %s, which is %g now", key, now)
	if cfg.RunDir == "" {
		return how + ", and go on from the last checkpoint"
	}
	return fmt.Sprintf("%s: type %s run_dir=%s %s=%.2g to go on from the last checkpoint, if there is one", how, cfg.Verb(),
		look.Word(cfg.RunDir), key, next)
}

// Sound reports whether a policy computes numbers still, by one of the datums that it was last trained on.
func (l *Learner) Sound(ctx context.Context, d model.Datum) (bool, error) {
	if len(d.Tokens) < 2 {
		return true, nil
	}
	progress := l.Policy.Progress
	defer func() { l.Policy.Progress = progress }()
	l.Policy.Progress = nil
	scores, err := l.Policy.Score(ctx, [][]int32{d.Tokens}, 1)
	return err == nil && !slices.ContainsFunc(scores[0], func(x float32) bool { return !finite(float64(x)) }), err
}
