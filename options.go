package grpo

import (
	"cmp"
	"sync"

	"github.com/seed-7879b91d/grpo/internal/conversation"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
)

// Option is something that a Go program does in its own way. A nil one, or one of nil, changes nothing.
type Option func(*custom)

// custom are the caller's own parts; nil is what the configuration says.
type custom struct {
	grader     reward.Grader
	env        Environment
	wrap       func(reward.Grader) reward.Grader
	advantage  AdvantageFunc
	loss       model.LossFunc
	groups     func(step int, groups []Group) error
	unrecorded bool
	model      *model.Policy // whose weights are shared
	turn       sync.Locker
}

// WithGrader scores completions with an own grader. Neither Python nor a sandbox is needed then, and the settings of
// the reward are not used. What the policy learns from is Score.Reward alone; pass@1 and whatever else says "correct"
// count Score.Components.Correct, which the grader sets to 1 where a completion is right, else to 0.
func WithGrader(g reward.Grader) Option { return func(c *custom) { c.grader = g } }

// WrapGrader puts something around the grader that the settings ask for, or that WithGrader brought.
func WrapGrader(f func(reward.Grader) reward.Grader) Option { return func(c *custom) { c.wrap = f } }

// An Environment answers a policy turn by turn. See the package episode, whose names these are.
type (
	Environment = episode.Environment
	Episode     = episode.Episode
	Said        = episode.Said
	Answer      = episode.Answer
	// Conversation is what is kept of one.
	Conversation = conversation.Record
	// ConversationStats are those of many.
	ConversationStats = conversation.Stats
)

// WithEnvironment has an own environment answer the policy, with env=own among the settings.
func WithEnvironment(env Environment) Option { return func(c *custom) { c.env = env } }

// WithAdvantage compares the completions of a group in an own way.
func WithAdvantage(f AdvantageFunc) Option { return func(c *custom) { c.advantage = f } }

// WithLoss minimises an own loss. The settings of the loss are not used then; its statistics are those of the importance-sampling loss.
func WithLoss(f model.LossFunc) Option { return func(c *custom) { c.loss = f } }

// WithGroups shows every group of a step with its rewards and advantages, before the policy learns from them. An error ends the step.
func WithGroups(f func(step int, groups []Group) error) Option {
	return func(c *custom) { c.groups = f }
}

// Beside trains an adapter over the weights of a model that is open already, which must be the one that the settings name. The turn is
// that of everybody who computes on the backend: it is held while something is computed, and given away between two pieces of work.
func Beside(p *model.Policy, turn sync.Locker) Option {
	return func(c *custom) { c.model, c.turn = p, turn }
}

// WithTurn has the trainer hold a lock while it computes. Between two batches, and while it does something else, others may hold it,
// and compute on the same backend: that changes nothing of what the trainer comes to. Whoever asks its Policy itself holds it, too.
func WithTurn(turn sync.Locker) Option { return func(c *custom) { c.turn = turn } }

// Unrecorded trains without a run directory: nothing is written, and run_dir and resume are not used.
func Unrecorded() Option { return func(c *custom) { c.unrecorded = true } }

func collect(options []Option) custom {
	c := custom{}
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	if c.groups == nil {
		c.groups = func(int, []Group) error { return nil }
	}
	c.turn = cmp.Or(c.turn, sync.Locker(new(sync.Mutex)))
	return c
}

// names lists the parts that are the caller's own and decide what comes out, for the manifest.
func (c custom) names() (names []string) {
	for _, part := range []struct {
		own  bool
		name string
	}{{c.grader != nil, provenance.OwnGrader}, {c.wrap != nil, provenance.OwnWrapper}, {c.advantage != nil, provenance.OwnAdvantage},
		{c.loss != nil, provenance.OwnLoss}, {c.env != nil, provenance.OwnEnvironment}} {
		if part.own {
			names = append(names, part.name)
		}
	}
	return names
}
