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

// Option replaces a part of the trainer by the caller's. A nil option, or one made of nil, changes nothing.
type Option func(*custom)

// custom are the parts that the caller replaces; nil: as configured.
type custom struct {
	grader     reward.Grader
	env        Environment
	wrap       func(reward.Grader) reward.Grader
	advantage  AdvantageFunc
	loss       model.LossFunc
	groups     func(step int, groups []Group) error
	unrecorded bool
	model      *model.Policy // an open model whose weights are shared
	turn       sync.Locker   // the lock on the backend
}

// WithGrader scores completions with the caller's grader. It needs neither Python nor a sandbox, and the reward settings
// are not used. The policy learns from Score.Reward alone; pass@1 and everything else that says "correct" counts
// Score.Components.Correct, which the grader sets to 1 for a right completion, else to 0.
func WithGrader(g reward.Grader) Option { return func(c *custom) { c.grader = g } }

// WrapGrader wraps the grader of the settings, or that of WithGrader.
func WrapGrader(f func(reward.Grader) reward.Grader) Option { return func(c *custom) { c.wrap = f } }

// An Environment answers a policy turn by turn. These are aliases of package episode, which documents them.
type (
	Environment = episode.Environment
	Episode     = episode.Episode
	Said        = episode.Said
	Answer      = episode.Answer
	// Conversation is the record of one conversation.
	Conversation = conversation.Record
	// ConversationStats are statistics over many conversations.
	ConversationStats = conversation.Stats
)

// WithEnvironment has the caller's environment answer the policy; the settings must say env=own.
func WithEnvironment(env Environment) Option { return func(c *custom) { c.env = env } }

// WithAdvantage computes the advantages of a group with the caller's function.
func WithAdvantage(f AdvantageFunc) Option { return func(c *custom) { c.advantage = f } }

// WithLoss minimises the caller's loss in place of the configured one. The other loss statistics are those of importance sampling.
func WithLoss(f model.LossFunc) Option { return func(c *custom) { c.loss = f } }

// WithGroups calls f with the groups of every step, rewards and advantages included, before the update. An error ends the step. f must
// not change the groups, and not call Step, Run, Save or Close; it may call Sample and Evaluate.
func WithGroups(f func(step int, groups []Group) error) Option {
	return func(c *custom) { c.groups = f }
}

// Beside trains an adapter over the frozen weights of a model that is already open and that must be the one in the settings.
// turn is the lock that all users of the backend share, as in WithTurn.
func Beside(p *model.Policy, turn sync.Locker) Option {
	return func(c *custom) { c.model, c.turn = p, turn }
}

// WithTurn shares the backend: the trainer holds this lock while it computes and releases it between batches, when others may compute.
// That changes none of its results. A caller that uses the trainer's Policy directly must hold the lock, too.
func WithTurn(turn sync.Locker) Option { return func(c *custom) { c.turn = turn } }

// Unrecorded trains without a run directory: nothing is written, and run_dir and resume are ignored.
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

// names lists, for the manifest, the replaced parts that influence results.
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
