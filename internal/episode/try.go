package episode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// attempt is one episode. Only one goroutine uses it at a time: the environment's, or the one that samples.
type attempt struct {
	*group
	episode  Episode        // nil: not opened yet, or closed
	said     []chat.Message // the messages after the prompt, turns of the model as raw text
	called   []chat.Message // the same, with parsed calls in place of their raw text
	calls    int            // calls of tools made so far
	thinking bool           // the turn begins within thoughts
	took     time.Duration  // total time of the environment's answers

	reward float64
	score  *reward.Score
	judged []TurnGrade
	unread int // malformed calls
	wrong  int // unread, and calls that failed
	infos  []map[string]any
	ending Ending
	err    error
}

// answer lets the environment answer the last turn, and returns how the sequence continues.
func (t *attempt) answer(sofar sampler.Rollout) (more sampler.More) {
	more, t.err = t.nextTurn(sofar)
	if t.err != nil || more.MaxTokens == 0 {
		more = sampler.More{}
		t.err = errors.Join(t.err, t.close())
	}
	return more
}

func (t *attempt) nextTurn(sofar sampler.Rollout) (more sampler.More, err error) {
	said, turn, ended := t.read(sofar)
	answer, err := t.ask(said)
	if err != nil {
		return more, err
	}
	t.note(said, answer)
	switch {
	case answer.Over:
		t.ending = Over
	case said.Last:
		t.ending = OutOfTurns
	case len(answer.Messages) == 0:
		return more, errors.New("the environment has no answer to a turn, and does not end the episode")
	}
	t.said, t.called = append(t.said, chat.Message{Role: "assistant", Content: said.Raw}), append(t.called, turn)
	if t.ending != "" {
		return more, nil
	}
	tokens, text, err := t.follow(ended, answer.Messages)
	if err != nil {
		return more, fmt.Errorf("what the environment answers cannot be rendered: %w", err)
	}
	room := t.maxTokens - len(sofar.Tokens) - len(tokens)
	if room < 1 {
		t.ending = OutOfTokens
		return more, t.spent(said)
	}
	t.said, t.called = append(t.said, answer.Messages...), append(t.called, answer.Messages...)
	t.thinking = t.notation.Thinks && calls.WithinThoughts(text)
	return sampler.More{Tokens: tokens, MaxTokens: min(t.TurnTokens, room)}, nil
}

// note records the environment's answer to a turn.
func (t *attempt) note(said Said, answer Answer) {
	t.reward, t.infos = answer.Reward, append(t.infos, answer.Info)
	t.wrong = answer.Wrong + t.unread
	if s := answer.Score; s != nil {
		t.score = s
		t.judged = append(t.judged, TurnGrade{Turn: said.Turn, Reward: s.Reward, Verdict: s.Verdict, Correct: s.Components.Correct == 1})
	}
}

// spent lets an episode that ends for lack of room score its last turn, if it is a Spender.
func (t *attempt) spent(said Said) error {
	last, can := t.episode.(Spender)
	if !can {
		return nil
	}
	answer, err := t.timed(func(ctx context.Context) (Answer, error) { return last.Spent(ctx, said) })
	if err == nil {
		t.note(said, answer)
	}
	return err
}

// read parses the last turn, for the environment and for the chat format. ended says that a stop token ended it.
func (t *attempt) read(sofar sampler.Rollout) (said Said, message chat.Message, ended bool) {
	turn := sofar.Turns[len(sofar.Turns)-1]
	tokens := sofar.Tokens[turn.Start:turn.End]
	said = Said{Finish: turn.Finish, Turn: len(sofar.Turns) - 1, Tokens: len(tokens), MaxTokens: t.TurnTokens}
	said.Last = said.Turn+1 == t.Turns
	if ended = slices.Contains(t.Stops, tokens[len(tokens)-1]); ended {
		tokens = tokens[:len(tokens)-1]
	}
	said.Raw = t.notation.Text(t.Tokenizer, tokens)
	heard, err := t.notation.Read(said.Raw, t.thinking)
	said.Text, said.Thoughts, said.Calls, said.Malformed = heard.Content, heard.Thoughts, heard.Calls, err
	for i := range said.Calls {
		said.Calls[i].ID = fmt.Sprintf("call%05d", t.calls) // some templates require nine characters
		t.calls++
	}
	if err != nil {
		t.unread++
	}
	message = chat.Message{Role: "assistant", Content: said.Text, ToolCalls: said.Calls}
	if said.Thoughts != "" {
		message.Reasoning = &said.Thoughts
	}
	return said, message, ended
}

// ask passes the turn to the environment, after opening the episode at the first one.
func (t *attempt) ask(said Said) (Answer, error) {
	return t.timed(func(ctx context.Context) (answer Answer, err error) {
		if t.episode == nil {
			if t.episode, err = t.env.Open(ctx, t.start.Problem); err != nil {
				t.episode = nil
				return answer, err
			}
			if t.episode == nil {
				return answer, errors.New("the environment opened no episode, and said no error")
			}
		}
		if answer, err = t.episode.Turn(ctx, said); err != nil {
			return answer, err
		}
		if err = answer.check(); err != nil && t.start.Problem != nil {
			err = fmt.Errorf("problem %s, turn %d: %w; what was said begins %.60q", t.start.Problem.ID, said.Turn+1, err, said.Raw)
		}
		return answer, err
	})
}

// check refuses rewards and scores that can be neither compared nor recorded.
func (a Answer) check() error {
	if math.Abs(a.Reward) <= math.MaxFloat32/2 { // false for NaN
		if _, err := json.Marshal(a.Score); err != nil {
			return fmt.Errorf("the environment's score of a turn: %w, expected numbers", err)
		}
		return nil
	}
	return badinput.Errorf("the environment's reward is %v, expected a number of at most %.3g either way: have it give a smaller one",
		a.Reward, math.MaxFloat32/2)
}

// TimeoutError is the error of an environment that took longer than its limit.
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the environment took longer than the %s for its answers", e.Limit)
}

// timed calls answer within the time that the environment has left.
func (t *attempt) timed(answer func(context.Context) (Answer, error)) (a Answer, err error) {
	ctx, cancel := t.ctx, context.CancelFunc(func() {})
	start := time.Now()
	if t.Time > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, t.Time-t.took, &TimeoutError{t.Time})
	}
	defer cancel()
	a, err = answer(ctx)
	t.took += time.Since(start)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return a, err
}

// follow renders the messages after the turn. Renderer.Continue renders a stand-in turn after the history, which a template may refuse:
// for calls in it, tool messages that answer no call, or two turns of the model in a row. So it is tried with calls, with raw text, and
// then both without the turn. These last would be exacter, but templates that count turns had the first in the runs on record.
func (t *attempt) follow(ended bool, after []chat.Message) (tokens []int32, text string, err error) {
	turn := len(t.said) - 1
	for _, past := range [][]chat.Message{t.called, t.said, t.called[:turn], t.said[:turn]} {
		tokens, text, err = t.Renderer.Continue(slices.Concat(t.start.Messages, past), ended, after, t.start.Tools...)
		if err == nil {
			break
		}
	}
	return tokens, text, err
}

func (t *attempt) close() error {
	if t.episode == nil {
		return nil
	}
	e := t.episode
	t.episode = nil
	return e.Close()
}
