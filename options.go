package grpo

import (
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// Option is something that a Go program does in its own way.
type Option func(*custom)

// custom are the caller's own parts; nil is what the configuration says.
type custom struct {
	grader     reward.Grader
	wrap       func(reward.Grader) reward.Grader
	advantage  AdvantageFunc
	loss       model.LossFunc
	groups     func(step int, groups []Group) error
	unrecorded bool
}

// WithGrader scores completions with an own grader. Neither Python nor a sandbox is needed then, and the settings of
// the reward are not used. What the policy learns from is Score.Reward alone; pass@1 and whatever else says "correct"
// count Score.Components.Correct, which the grader sets to 1 where a completion is right.
func WithGrader(g reward.Grader) Option { return func(c *custom) { c.grader = g } }

// WrapGrader puts something around the grader that the settings ask for, or that WithGrader brought.
func WrapGrader(f func(reward.Grader) reward.Grader) Option { return func(c *custom) { c.wrap = f } }

// WithAdvantage compares the completions of a group in an own way.
func WithAdvantage(f AdvantageFunc) Option { return func(c *custom) { c.advantage = f } }

// WithLoss minimises an own loss. The settings of the loss are not used then; its statistics are those of the
// importance-sampling loss.
func WithLoss(f model.LossFunc) Option { return func(c *custom) { c.loss = f } }

// WithGroups shows every group of a step with its rewards and advantages, before the policy learns from them. An
// error ends the step.
func WithGroups(f func(step int, groups []Group) error) Option {
	return func(c *custom) {
		if f != nil {
			c.groups = f
		}
	}
}

// Unrecorded trains without a run directory: nothing is written, and run_dir and resume are not used.
func Unrecorded() Option { return func(c *custom) { c.unrecorded = true } }

func collect(options []Option) custom {
	c := custom{groups: func(int, []Group) error { return nil }}
	for _, o := range options {
		o(&c)
	}
	return c
}

// names lists the parts that are the caller's own and decide what comes out, for the manifest.
func (c custom) names() (names []string) {
	if c.grader != nil {
		names = append(names, provenance.OwnGrader)
	}
	if c.wrap != nil {
		names = append(names, provenance.OwnWrapper)
	}
	if c.advantage != nil {
		names = append(names, provenance.OwnAdvantage)
	}
	if c.loss != nil {
		names = append(names, provenance.OwnLoss)
	}
	return names
}
