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

// Talk is how a model is spoken with.
type Talk struct {
	Renderer  *chat.Renderer
	Tokenizer *tokenizer.Tokenizer
	Stops     []int32 // tokens that end a turn
	Limits
}

// Limits bound an episode.
type Limits struct {
	Turns      int           // of the model
	TurnTokens int           // that it draws in one
	Tokens     int           // after the prompt, whoever wrote them; 0: as many as a sequence may have
	Time       time.Duration // that the environment takes for all its answers; 0: any
}

// Start is what some episodes begin with.
type Start struct {
	Problem  *data.Problem
	Messages []chat.Message // that open it
	Tools    []chat.Tool    // that the model is told of; none: it calls nothing
	Samples  int            // episodes
	Key      sampler.Key
}

// Ending is why an episode is over.
type Ending string

const (
	Over        Ending = "over"       // as the environment said
	OutOfTurns  Ending = "max_turns"  // by Limits.Turns
	OutOfTokens Ending = "max_tokens" // there is no room for another turn
	Failed      Ending = "failed"     // by Err: the environment could not answer, so that nobody knows what it is worth
)

// Played is an episode that is over.
type Played struct {
	sampler.Rollout // Request is the index of its Start
	Prompt          []int32
	Messages        []chat.Message // after those of its Start
	Reward          float64
	Ending          Ending
	Score           *reward.Score    // of the last turn that has one; nil: none has
	Judged          []Judged         // the turns that have one
	Calls, Wrong    int              // of tools, and those that could not be read or done
	Took            time.Duration    // of the environment, for its answers
	Infos           []map[string]any // of the answers
}

// Judged is what a grader said of a turn.
type Judged struct {
	Turn    int            `json:"turn"` // counts from 0
	Reward  float64        `json:"reward"`
	Verdict reward.Verdict `json:"verdict"`
	Correct bool           `json:"correct"`
}

// Datum is what a model learns from an episode: its own turns.
func (p Played) Datum(advantage float32) model.Datum {
	n := len(p.Prompt)
	tokens := append(append(make([]int32, 0, n+len(p.Tokens)), p.Prompt...), p.Tokens...)
	logprobs := append(make([]float32, n-1, len(tokens)-1), p.LogProbs...)
	return model.NewConversation(tokens, Spans(n, len(p.Tokens), p.Turns), logprobs, advantage)
}

// Spans are the turns of the model in a sequence with a prompt of so many tokens, and so many after it; without turns, all of these.
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

// player is the episodes of one start.
type player struct {
	*Talk
	ctx       context.Context
	env       Environment
	start     Start
	prompt    []int32
	maxTokens int // after the prompt
	notation  calls.Notation
	tries     []*try
	request   sampler.Request
	work      *sync.WaitGroup
}

// Play plays the episodes of all starts with what e samples from, beside each other, and returns when all are over, in the order of
// the starts and their samples. done, which may be nil, is told of each as it ends, by the goroutine that samples. The environment
// answers in goroutines of its own. Of params, Play sets MaxTokens and StopTokens.
func (t *Talk) Play(ctx context.Context, e *sampler.Engine, env Environment, starts []Start, params sampler.Params, done func(Played)) (
	played []Played, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	var players []*player
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

// check reports what is wrong with the limits.
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

// open words the prompt of a start.
func (t *Talk) open(ctx context.Context, maxLength int, env Environment, start Start, params sampler.Params) (*player, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	prompt, text, err := t.Renderer.Prompt(start.Messages, start.Tools...)
	if err != nil {
		return nil, err
	}
	p := &player{Talk: t, ctx: ctx, env: env, start: start, prompt: prompt, notation: calls.Of(t.Renderer, t.Tokenizer)}
	if p.maxTokens = min(maxLength-len(prompt), cmp.Or(t.Tokens, maxLength)); p.maxTokens < 1 {
		return nil, badinput.Errorf("a prompt of %d tokens leaves no room for a turn in the %d that a sequence may have", len(prompt), maxLength)
	}
	p.notation.Calls = p.notation.Calls && len(start.Tools) > 0
	for range start.Samples {
		p.tries = append(p.tries, &try{player: p, thinking: p.notation.Thinks && calls.WithinThoughts(text)})
	}
	params.MaxTokens, params.StopTokens = min(t.TurnTokens, p.maxTokens), t.Stops
	p.request = sampler.Request{Prompt: prompt, N: start.Samples, Key: start.Key, Params: params, Next: p.next}
	return p, nil
}

// next has the environment answer a turn, while others are sampled.
func (p *player) next(sofar sampler.Rollout, reply func(sampler.More)) {
	p.work.Go(func() { reply(p.tries[sofar.Sample].answer(sofar)) })
}

// played is an episode whose rollout is done.
func (p *player) played(r sampler.Rollout) Played {
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

// close closes what was not played to its end.
func (p *player) close() (err error) {
	for _, t := range p.tries {
		err = errors.Join(err, t.close())
	}
	return err
}
