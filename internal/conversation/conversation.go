// Package conversation makes of the settings of a run who answers the model, and has conversations sampled: what comes back is a
// sequence with a score, as that of a completion is. It does not know what a trainer does with them.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/episode"
	"github.com/seed-7879b91d/grpo/internal/judging"
	"github.com/seed-7879b91d/grpo/internal/mcp"
	"github.com/seed-7879b91d/grpo/internal/openenv"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/sandbox"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Own is the setting env of a run whose environment is a Go program's.
const Own = "own"

// Room is where a run's conversations take place. A nil Room is that of a run whose completions are one turn.
type Room struct {
	Notes []string // that the user should know

	language *sources.Language
	env      episode.Environment
	talk     episode.Talk
	failures int // of the machine that a draw may have
	servers  *mcp.Servers
	where    string // for people
	close    func() error
}

// Open opens what the settings say of conversations about these problems, nil where they say none. Own is the caller's environment, of
// env=own.
func Open(ctx context.Context, cfg *configs.Config, l *sources.Language, j *judging.Judging, p *sources.Problems,
	own episode.Environment) (*Room, error) {
	if own != nil && cfg.Env != Own {
		return nil, badinput.Errorf("env: the program brings an environment of its own, and env=%s; type env=%s", cfg.Env, Own)
	}
	if cfg.Env == "none" {
		return nil, nil
	}
	r := &Room{language: l, env: own, failures: cfg.InfraThreshold, close: func() error { return nil }}
	r.talk = episode.Talk{Renderer: l.Renderer, Tokenizer: l.Tokenizer, Stops: l.Stops,
		Limits: episode.Limits{Turns: cfg.MaxTurns, TurnTokens: cfg.MaxTokens, Tokens: cfg.SequenceTokens(),
			Time: time.Duration(cfg.ConversationSeconds * float64(time.Second))}}
	var err error
	switch {
	case cfg.Env == Own && own == nil:
		err = badinput.Errorf("env=%s is for a Go program that brings an environment (grpo.WithEnvironment); type env=heal or env=none", Own)
	case cfg.Env == "heal":
		if r.env, err = healing(cfg, j); err == nil {
			err = r.untold(ctx, cfg, j, slices.Concat(p.Train, p.HeldOut))
		}
	case cfg.Env == "tools":
		err = r.workshop(ctx, cfg, l, j)
	case cfg.EnvProgram() != "":
		err = r.program(ctx, cfg)
	case cfg.EnvServer() != "":
		err = r.world(ctx, cfg, l)
	}
	return r, err
}

// String says for people what conversations there are.
func (r *Room) String() string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf(", in conversations of up to %s and %s", plural.Of(r.talk.Turns, "turn"), plural.Of(r.talk.Tokens, "token"))
	if r.servers != nil {
		text += ", with the tools of " + r.servers.String()
	}
	if r.where != "" {
		text += " " + r.where
	}
	return text
}

// Close ends what answers.
func (r *Room) Close() error { return r.close() }

// Ask is a problem that so many conversations are about.
type Ask struct {
	Problem *data.Problem
	Key     sampler.Key
}

// Drawn is a conversation that is over.
type Drawn struct {
	sampler.Rollout // Request is the index of its Ask
	Record          *Record
}

// Sample draws n conversations about each problem, and tells of each as it is over, by the goroutine that samples. One that the machine
// failed has a score that is left out; too many of them, and any other failure of an environment, end the sampling.
func (r *Room) Sample(ctx context.Context, e *sampler.Engine, asks []Ask, n int, params sampler.Params, done func(Drawn)) error {
	starts := make([]episode.Start, len(asks))
	for i, a := range asks {
		messages, tools, err := r.language.Messages(ctx, a.Problem)
		if err != nil {
			return err
		}
		starts[i] = episode.Start{Problem: a.Problem, Messages: messages, Tools: tools, Samples: n, Key: a.Key}
	}
	playing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := 0
	_, err := r.talk.Play(playing, e, r.env, starts, params, func(p episode.Played) {
		d := Drawn{Rollout: p.Rollout, Record: r.record(p)}
		switch {
		case p.Err == nil:
			d.Record.Score = score(p)
		case !machine(p.Err, &d.Record.Score):
			stop(p.Err)
			return
		default:
			if failed++; failed > r.failures {
				stop(fmt.Errorf("the environment failed in %d conversations, at last with: %w; %s", failed, p.Err, remedy(p.Err)))
				return
			}
		}
		done(d)
	})
	// The failure may be that of the last conversation, when nothing is left to be drawn and the sampler has no reason to complain.
	if cause := context.Cause(playing); cause != nil && ctx.Err() == nil {
		return cause
	}
	return cmp.Or(ctx.Err(), err) // what ends a context may have a word of its own, which is no failure
}

// remedy is what to do about an environment that failed too often: a server is somebody else's, and the sandbox this machine's.
func remedy(err error) string {
	var infra *sandbox.InfraError
	if errors.As(err, &infra) {
		return "run 'grpo doctor' to see what is wrong"
	}
	return "mend that, and type the same again, which goes on from the last checkpoint"
}

// score is that of an episode: of its last turn, with the reward of the whole.
func score(p episode.Played) (s reward.Score) {
	if p.Score != nil {
		s = *p.Score
	} else if p.Reward >= 1 {
		s.Components.Correct = 1
	}
	s.Reward = p.Reward
	return s
}

// machine tells whether a failure says nothing about the conversation, which is left out of its group then, and gives it that score.
func machine(err error, s *reward.Score) bool {
	var infra *sandbox.InfraError
	var slow *episode.TooSlow
	var down *mcp.Down
	var away *openenv.Down
	var unscored *episode.NotScored
	switch {
	case errors.As(err, &unscored):
		*s = unscored.Score
		return true
	case errors.As(err, &infra), errors.As(err, &slow), errors.As(err, &down), errors.As(err, &away):
		*s = reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA, Note: err.Error()}
		return true
	}
	return false
}
