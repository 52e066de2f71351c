// Package episode is a problem that a model works on in several turns: it says something, the environment answers with
// what tools gave, a verdict or a question, and so on until one of them ends it.
//
// An environment knows what is said and what it is worth. It knows no tokens, and not how the model is sampled: a Talk does, which
// plays many episodes beside each other. An episode is one sequence that grows, so what a model learns from is what it drew.
package episode

import (
	"context"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Environment opens episodes. Several goroutines may open some at once.
type Environment interface {
	Open(ctx context.Context, p *data.Problem) (Episode, error)
}

// Episode is one try at a problem. Its methods are called one after the other: Turn after each turn of the model until it is over,
// and Close in any case, once. An error is a machine that fails, not a model that does: it ends the episode, which is worth nothing
// then, and no reward of 0.
type Episode interface {
	Turn(ctx context.Context, said Said) (Answer, error)
	Close() error
}

// Spender is an episode that has something to say to its last turn where there was no room for another one, though it was not over.
type Spender interface {
	Spent(ctx context.Context, said Said) (Answer, error)
}

// Said is a turn of the model.
type Said struct {
	Text      string               // without thoughts and calls, and without the token that ended it
	Thoughts  string               // where the model writes any
	Raw       string               // all that was drawn, in words
	Calls     []Call               // of tools, in order, with IDs of their own in this episode
	Malformed error                // what is wrong with a call that cannot be read, a *calls.Malformed; nil: nothing
	Finish    sampler.FinishReason // sampler.Length: it was cut off
	Turn      int                  // counts from 0
	Last      bool                 // no turn comes after it, whatever the environment says
	Tokens    int                  // that were drawn
	MaxTokens int                  // that could be
}

// Call is a call of a tool. A message that answers it has its ID as ToolCallID.
type Call = chat.ToolCall

// Answer is what an environment has to say to a turn.
type Answer struct {
	Messages []chat.Message // that the model reads before its next turn: of tools, or of a user
	Reward   float64        // of the episode so far
	Score    *reward.Score  // of the turn, where a grader gave one; its Reward is that of the turn alone
	Wrong    int            // calls of tools so far that could not be done as they were made
	Over     bool           // there is no next turn
	Info     map[string]any // for who looks at the episode later, as JSON
}
