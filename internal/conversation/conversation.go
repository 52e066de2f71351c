// Package conversation opens the environment that the settings of a run name, and samples conversations with it. Each comes back
// as a sequence with a score, like a plain completion. It does not know what a trainer does with them.
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

// CallerEnvironment is the value of the setting env for an environment that the caller's Go program brings.
const CallerEnvironment = "own"

// Sampler samples the conversations of a run. It is nil if completions are of one turn.
type Sampler struct {
	Notes []string // for the user

	language *sources.Language
	env      episode.Environment
	player   episode.Player
	failures int // conversations per draw that the machine may fail
	servers  *mcp.Servers
	where    string // of the environment, for messages
	close    func() error
}

// Open opens the environment that the settings name, for conversations about these problems; nil if they name none. own is the
// caller's environment, with env=own.
func Open(ctx context.Context, cfg *configs.Config, l *sources.Language, j *judging.Judging, p *sources.Problems,
	own episode.Environment) (*Sampler, error) {
	if own != nil && cfg.Env != CallerEnvironment {
		return nil, badinput.Errorf("env: the program brings an environment of its own, and env=%s; type env=%s", cfg.Env, CallerEnvironment)
	}
	if cfg.Env == "none" {
		return nil, nil
	}
	r := &Sampler{language: l, env: own, failures: cfg.InfraThreshold, close: func() error { return nil }}
	r.player = episode.Player{Renderer: l.Renderer, Tokenizer: l.Tokenizer, Stops: l.Stops,
		Limits: episode.Limits{Turns: cfg.MaxTurns, TurnTokens: cfg.MaxTokens, Tokens: cfg.SequenceTokens(),
			Time: time.Duration(cfg.ConversationSeconds * float64(time.Second))}}
	var err error
	switch {
	case cfg.Env == CallerEnvironment && own == nil:
		err = badinput.Errorf("env=%s is for a Go program that brings an environment (grpo.WithEnvironment); type env=heal or env=none",
			CallerEnvironment)
	case cfg.Env == "heal":
		if r.env, err = openHeal(cfg, j); err == nil {
			err = r.noteUntested(ctx, cfg, j, slices.Concat(p.Train, p.HeldOut))
		}
	case cfg.Env == "tools":
		err = r.openTools(ctx, cfg, l, j)
	case cfg.EnvProgram() != "":
		err = r.program(ctx, cfg)
	case cfg.EnvServer() != "":
		err = r.connectOpenEnv(ctx, cfg, l)
	}
	return r, err
}

// String describes the conversations for the user.
func (r *Sampler) String() string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf(", in conversations of up to %s and %s", plural.Of(r.player.Turns, "turn"), plural.Of(r.player.Tokens, "token"))
	if r.servers != nil {
		text += ", with the tools of " + r.servers.String()
	}
	if r.where != "" {
		text += " " + r.where
	}
	return text
}

// Close ends the environment.
func (r *Sampler) Close() error { return r.close() }

// Request asks for conversations about a problem.
type Request struct {
	Problem *data.Problem
	Key     sampler.Key
}

// Result is a finished conversation.
type Result struct {
	sampler.Rollout // Request is the index among the requests
	Record          *Record
}

// Sample samples n conversations about each problem, and calls done with each as it ends, in the sampling goroutine. A conversation
// that the machine failed gets an excluded score. Too many of these, or any other failure of the environment, end the sampling.
func (r *Sampler) Sample(ctx context.Context, e *sampler.Engine, asks []Request, n int, params sampler.Params, done func(Result)) error {
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
	_, err := r.player.Play(playing, e, r.env, starts, params, func(p episode.Played) {
		d := Result{Rollout: p.Rollout, Record: r.record(p)}
		switch {
		case p.Err == nil:
			d.Record.Score = score(p)
		case !machineFailed(p.Err, &d.Record.Score):
			stop(p.Err)
			return
		default:
			if failed++; failed > r.failures {
				stop(fmt.Errorf("the environment failed in %d conversations, most recently: %w; %s", failed, p.Err, remedy(p.Err)))
				return
			}
		}
		done(d)
	})
	// If the last conversation fails, sampling is complete already and the sampler returns no error.
	if cause := context.Cause(playing); cause != nil && ctx.Err() == nil {
		return cause
	}
	return cmp.Or(ctx.Err(), err) // a deadline or an interruption is no failure of the environment
}

// remedy is what to do about an environment that failed too often. A sandbox is this machine's; anything else is the user's.
func remedy(err error) string {
	var infra *sandbox.InfraError
	if errors.As(err, &infra) {
		return "run 'grpo doctor' to see what is wrong"
	}
	return "fix it, and type the same command again to resume from the last checkpoint"
}

// score is the score of an episode: that of its last graded turn, with the reward of the whole episode.
func score(p episode.Played) (s reward.Score) {
	if p.Score != nil {
		s = *p.Score
	} else if p.Reward >= 1 {
		s.Components.Correct = 1
	}
	s.Reward = p.Reward
	return s
}

// machineFailed reports whether an error says nothing about the conversation. It then sets s to an excluded score.
func machineFailed(err error, s *reward.Score) bool {
	var infra *sandbox.InfraError
	var slow *episode.TimeoutError
	var down *mcp.UnavailableError
	var away *openenv.UnavailableError
	var unscored *episode.UnscoredError
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
