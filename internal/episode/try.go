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

// try is one episode. It is in one goroutine at a time: in that of its environment, or in the one that samples.
type try struct {
	*player
	episode  Episode        // nil: not open yet, or not any more
	said     []chat.Message // after those that open it
	called   []chat.Message // the same, with calls where those were read
	calls    int            // that were made
	thinking bool           // the turn begins within thoughts
	took     time.Duration  // of the environment, for its answers

	reward float64
	score  *reward.Score
	judged []Judged
	unread int // calls that could not be read
	wrong  int // these, and others that could not be done
	infos  []map[string]any
	ending Ending
	err    error
}

// answer has the environment answer the last turn, and says how the sequence goes on.
func (t *try) answer(sofar sampler.Rollout) (more sampler.More) {
	more, t.err = t.goOn(sofar)
	if t.err != nil || more.MaxTokens == 0 {
		more = sampler.More{}
		t.err = errors.Join(t.err, t.close())
	}
	return more
}

func (t *try) goOn(sofar sampler.Rollout) (more sampler.More, err error) {
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

// note keeps what an answer says of a turn.
func (t *try) note(said Said, answer Answer) {
	t.reward, t.infos = answer.Reward, append(t.infos, answer.Info)
	t.wrong = answer.Wrong + t.unread
	if s := answer.Score; s != nil {
		t.score = s
		t.judged = append(t.judged, Judged{Turn: said.Turn, Reward: s.Reward, Verdict: s.Verdict, Correct: s.Components.Correct == 1})
	}
}

// spent has an episode say what it is worth though it is not over, where it can.
func (t *try) spent(said Said) error {
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

// read tells what was said in the last turn, as an environment and as a chat format see it, and whether a token ended it.
func (t *try) read(sofar sampler.Rollout) (said Said, message chat.Message, ended bool) {
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
		said.Calls[i].ID = fmt.Sprintf("call%05d", t.calls) // nine letters, which some templates want
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

// ask opens the episode at its first turn, and has it answer.
func (t *try) ask(said Said) (Answer, error) {
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

// check refuses what could be neither compared nor recorded, before somebody learns from it.
func (a Answer) check() error {
	if math.Abs(a.Reward) <= math.MaxFloat32/2 { // which NaN is not
		if _, err := json.Marshal(a.Score); err != nil {
			return fmt.Errorf("the environment's score of a turn: %w, expected numbers", err)
		}
		return nil
	}
	return badinput.Errorf("the environment's reward is %v, expected a number of at most %.3g either way: have it give a smaller one",
		a.Reward, math.MaxFloat32/2)
}

// TooSlow is the error of an environment that took longer than it may.
type TooSlow struct{ Limit time.Duration }

func (e *TooSlow) Error() string {
	return fmt.Sprintf("the environment took longer than the %s for its answers", e.Limit)
}

// timed has the environment answer in the time that it has left.
func (t *try) timed(answer func(context.Context) (Answer, error)) (a Answer, err error) {
	ctx, cancel := t.ctx, context.CancelFunc(func() {})
	start := time.Now()
	if t.Time > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, t.Time-t.took, &TooSlow{t.Time})
	}
	defer cancel()
	a, err = answer(ctx)
	t.took += time.Since(start)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return a, err
}

// follow renders what follows the turn. A chat format may refuse calls in its past, or tools that answer none, and one whose roles
// alternate two turns of the model's: the turn is in the past here, and another stands for it behind. It is asked without the turn last,
// though that says it best, so that formats that count turns go on as in the runs that are on record.
func (t *try) follow(ended bool, after []chat.Message) (tokens []int32, text string, err error) {
	turn := len(t.said) - 1
	for _, past := range [][]chat.Message{t.called, t.said, t.called[:turn], t.said[:turn]} {
		tokens, text, err = t.Renderer.Continue(slices.Concat(t.start.Messages, past), ended, after, t.start.Tools...)
		if err == nil {
			break
		}
	}
	return tokens, text, err
}

func (t *try) close() error {
	if t.episode == nil {
		return nil
	}
	e := t.episode
	t.episode = nil
	return e.Close()
}
