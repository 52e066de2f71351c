// Package episode is a problem that a model works on in several turns: the model says something, the environment answers with the
// output of tools, a verdict or a question, and so on until one of them ends it.
//
// An environment sees text and gives rewards. It knows neither tokens nor how the model is sampled: Player does, which plays many
// episodes at once. An episode is one sequence that grows, so a model is trained on exactly the tokens that it sampled.
package episode

import (
	"context"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Environment opens episodes. Open may be called by several goroutines at once.
type Environment interface {
	Open(ctx context.Context, p *data.Problem) (Episode, error)
}

// Episode is one try at a problem. Its methods are called one after the other: Turn after each turn of the model until the episode
// is over, and Close exactly once in any case. An error means that the machine failed, not the model: it ends the episode, which
// then has no reward (rather than a reward of 0).
type Episode interface {
	Turn(ctx context.Context, said Said) (Answer, error)
	Close() error
}

// Spender is an episode that can score its last turn when it must end because no room is left for another.
type Spender interface {
	Spent(ctx context.Context, said Said) (Answer, error)
}

// Said is a turn of the model.
type Said struct {
	Text      string               // the answer, without thoughts and calls, and without the stop token
	Thoughts  string               // where the model writes thoughts
	Raw       string               // all that was sampled, decoded
	Calls     []Call               // calls of tools, in order, with IDs that are unique in the episode
	Malformed error                // a *calls.Malformed if a call cannot be parsed; else nil
	Finish    sampler.FinishReason // sampler.Length: the turn was cut off
	Turn      int                  // counts from 0
	Last      bool                 // this is the last turn, whatever the environment answers
	Tokens    int                  // tokens sampled in the turn
	MaxTokens int                  // the most that could be sampled
}

// Call is a call of a tool. The message that answers it has its ID as ToolCallID.
type Call = chat.ToolCall

// Answer is the environment's answer to a turn.
type Answer struct {
	Messages []chat.Message // for the model to read before its next turn: from tools, or from a user
	Reward   float64        // of the episode so far
	Score    *reward.Score  // of the turn, where there is a grader; its Reward is that of the turn alone
	Wrong    int            // failed or malformed calls of tools so far
	Over     bool           // the episode ends with this turn
	Info     map[string]any // recorded as JSON, for whoever inspects the episode
}
