package episode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Player has what it takes to talk with a model.
type Player struct {
	Renderer  *chat.Renderer
	Tokenizer *tokenizer.Tokenizer
	Stops     []int32 // tokens that end a turn
	Limits
}

// Limits bound an episode.
type Limits struct {
	Turns      int           // turns of the model
	TurnTokens int           // tokens sampled in one turn
	Tokens     int           // tokens after the prompt, sampled or not; 0: as many as fit into a sequence
	Time       time.Duration // total time of the environment's answers; 0: no limit
}

// Start is the beginning of Samples episodes.
type Start struct {
	Problem  *data.Problem
	Messages []chat.Message // the prompt
	Tools    []chat.Tool    // offered to the model; none: nothing is parsed as a call
	Samples  int            // number of episodes
	Key      sampler.Key
}

// Ending is why an episode is over.
type Ending string

const (
	Over        Ending = "over"       // the environment said so
	OutOfTurns  Ending = "max_turns"  // Limits.Turns was reached
	OutOfTokens Ending = "max_tokens" // no room was left for another turn
	Failed      Ending = "failed"     // with Err: the environment could not answer, so the reward is unknown
)

// Played is a finished episode.
type Played struct {
	sampler.Rollout // Request is the index of its Start
	Prompt          []int32
	Messages        []chat.Message // those after the prompt
	Reward          float64
	Ending          Ending
	Score           *reward.Score    // of the last turn that was graded; nil: none was
	Judged          []TurnGrade      // the turns that were graded
	Calls, Wrong    int              // calls of tools, and those of them that were malformed or failed
	Took            time.Duration    // total time of the environment's answers
	Infos           []map[string]any // one of each answer
}

// TurnGrade is the grade of a turn.
type TurnGrade struct {
	Turn    int            `json:"turn"` // counts from 0
	Reward  float64        `json:"reward"`
	Verdict reward.Verdict `json:"verdict"`
	Correct bool           `json:"correct"`
}

// Datum makes a training datum of the episode. Only the turns of the model are trained on.
func (p Played) Datum(advantage float32) model.Datum {
	n := len(p.Prompt)
	tokens := append(append(make([]int32, 0, n+len(p.Tokens)), p.Prompt...), p.Tokens...)
	logprobs := append(make([]float32, n-1, len(tokens)-1), p.LogProbs...)
	return model.NewConversation(tokens, Spans(n, len(p.Tokens), p.Turns), logprobs, advantage)
}

// Spans returns the ranges of the model's turns in a sequence of prompt and after tokens. Without turns, all after the prompt is one.
func Spans(prompt, after int, turns []sampler.Turn) [][2]int {
	if turns == nil {
		return [][2]int{{prompt, prompt + after}}
	}
	spans := make([][2]int, len(turns))
	for i, t := range turns {
		spans[i] = [2]int{prompt + t.Start, prompt + t.End}
	}
	return spans
}

// group plays the episodes of one start.
type group struct {
	*Player
	ctx       context.Context
	env       Environment
	start     Start
	prompt    []int32
	maxTokens int // of a sequence, after the prompt
	notation  calls.Notation
	tries     []*attempt
	request   sampler.Request
	work      *sync.WaitGroup
}

// Play plays the episodes of all starts on e at once, and returns when all are over, in the order of the starts and their samples.
// The environment answers in goroutines of its own. done may be nil; else the sampling goroutine calls it with each episode as it
// ends. Of params, Play sets MaxTokens and StopTokens.
func (t *Player) Play(ctx context.Context, e *sampler.Engine, env Environment, starts []Start, params sampler.Params, done func(Played)) (
	played []Played, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	var players []*group
	var requests []sampler.Request
	defer func() {
		cancel()
		work.Wait()
		for _, p := range players {
			err = errors.Join(err, p.close())
		}
	}()
	for i, start := range starts {
		p, err := t.open(ctx, e.MaxLength, env, start, params)
		if err != nil {
			return nil, fmt.Errorf("episode %d: %w", i, err)
		}
		p.work = &work
		players, requests = append(players, p), append(requests, p.request)
	}
	on := sampler.Events{}
	if done != nil {
		on.Done = func(r sampler.Rollout) { done(players[r.Request].played(r)) }
	}
	rollouts, err := e.Sample(ctx, requests, on)
	for _, r := range rollouts {
		played = append(played, players[r.Request].played(r))
	}
	return played, err
}

// check validates the limits.
func (l Limits) check() error {
	switch {
	case l.Turns < 1:
		return badinput.Errorf("turns: found %d, expected 1 or more", l.Turns)
	case l.TurnTokens < 1:
		return badinput.Errorf("tokens of a turn: found %d, expected 1 or more", l.TurnTokens)
	case l.Tokens < 0 || l.Time < 0:
		return badinput.Errorf("tokens and time of an episode: found %d and %s, expected more than 0, or 0 for any", l.Tokens, l.Time)
	}
	return nil
}

// open renders the prompt of a start.
func (t *Player) open(ctx context.Context, maxLength int, env Environment, start Start, params sampler.Params) (*group, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	prompt, text, err := t.Renderer.Prompt(start.Messages, start.Tools...)
	if err != nil {
		return nil, err
	}
	p := &group{Player: t, ctx: ctx, env: env, start: start, prompt: prompt, notation: calls.Of(t.Renderer, t.Tokenizer)}
	if p.maxTokens = min(maxLength-len(prompt), cmp.Or(t.Tokens, maxLength)); p.maxTokens < 1 {
		return nil, badinput.Errorf("a prompt of %d tokens leaves no room for a turn in the %d that a sequence may have", len(prompt), maxLength)
	}
	p.notation.Calls = p.notation.Calls && len(start.Tools) > 0
	for range start.Samples {
		p.tries = append(p.tries, &attempt{group: p, thinking: p.notation.Thinks && calls.WithinThoughts(text)})
	}
	params.MaxTokens, params.StopTokens = min(t.TurnTokens, p.maxTokens), t.Stops
	p.request = sampler.Request{Prompt: prompt, N: start.Samples, Key: start.Key, Params: params, Next: p.next}
	return p, nil
}

// next lets the environment answer a turn in another goroutine, while sampling goes on.
func (p *group) next(sofar sampler.Rollout, reply func(sampler.More)) {
	p.work.Go(func() { reply(p.tries[sofar.Sample].answer(sofar)) })
}

// played makes the result of an episode from its finished rollout.
func (p *group) played(r sampler.Rollout) Played {
	t := p.tries[r.Sample]
	played := Played{Rollout: r, Prompt: p.prompt, Messages: t.said, Reward: t.reward, Ending: t.ending, Infos: t.infos,
		Score: t.score, Judged: t.judged, Calls: t.calls, Wrong: t.wrong, Took: t.took}
	if r.Err == nil {
		played.Err = t.err
	}
	if played.Err != nil {
		played.Ending = Failed
	}
	return played
}

// close closes episodes that were not played to their end.
func (p *group) close() (err error) {
	for _, t := range p.tries {
		err = errors.Join(err, t.close())
	}
	return err
}
