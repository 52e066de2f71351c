package episode

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// Graded is the environment of one turn, which a grader scores.
func Graded(g reward.Grader) Environment { return graded{g} }

type graded struct{ reward.Grader }

func (g graded) Open(_ context.Context, p *data.Problem) (Episode, error) { return verdict{g, p}, nil }

type verdict struct {
	graded
	problem *data.Problem
}

func (v verdict) Turn(ctx context.Context, said Said) (Answer, error) {
	return v.grade(ctx, v.problem, said)
}

func (verdict) Close() error { return nil }

// UnscoredError is the error of a turn that could not be scored, because something else than the program failed.
type UnscoredError struct{ Score reward.Score }

func (e *UnscoredError) Error() string {
	return fmt.Sprintf("not scored: %s: %s", e.Score.Excluded, e.Score.Note)
}

// grade ends an episode with the score of its last turn. An excluded score is an error: not the program failed.
func (g graded) grade(ctx context.Context, p *data.Problem, said Said) (Answer, error) {
	score, err := g.Grade(ctx, reward.Completion{Problem: p, Text: said.Raw, Tokens: said.Tokens,
		MaxTokens: said.MaxTokens, Truncated: said.Finish == sampler.Length})
	if err != nil {
		return Answer{}, err
	}
	if score.Excluded.Failed() {
		return Answer{}, &UnscoredError{score}
	}
	return Answer{Reward: score.Reward, Score: &score, Over: true}, nil
}

// Kit has the tools of one conversation, which are called one at a time. Call returns what is wrong with a call as text; an error is
// a failure of the machine.
type Kit interface {
	Call(ctx context.Context, name string, args json.RawMessage) (text string, err error)
	Close()
}

// Tools is the environment of a model that calls tools. It goes on until a turn has no call, is cut off or is the last; that turn is
// graded. A call that cannot be parsed is answered with what is wrong with it.
func Tools(open func(ctx context.Context, p *data.Problem) (Kit, error), g reward.Grader) Environment {
	return toolsEnvironment{graded{g}, open}
}

type toolsEnvironment struct {
	graded
	open func(ctx context.Context, p *data.Problem) (Kit, error)
}

func (w toolsEnvironment) Open(ctx context.Context, p *data.Problem) (Episode, error) {
	kit, err := w.open(ctx, p)
	if err != nil {
		return nil, err
	}
	return toolEpisode{verdict{w.graded, p}, kit}, nil
}

// toolEpisode is an episode with tools.
type toolEpisode struct {
	verdict
	kit Kit
}

// malformedID is the ID of a call that could not be parsed. Some templates require nine characters.
const malformedID = "malformed"

func (b toolEpisode) Turn(ctx context.Context, said Said) (Answer, error) {
	if said.Last || said.Finish == sampler.Length || len(said.Calls) == 0 && said.Malformed == nil {
		return b.Spent(ctx, said)
	}
	var a Answer
	for _, call := range said.Calls {
		text, err := b.kit.Call(ctx, call.Name, call.Arguments)
		if err != nil {
			return a, fmt.Errorf("%s: %w", call.Name, err)
		}
		a.Messages = append(a.Messages, chat.Message{Role: "tool", Name: call.Name, ToolCallID: call.ID, Content: text})
	}
	a.Wrong = b.wrong()
	if said.Malformed != nil {
		a.Messages = append(a.Messages, chat.Message{Role: "tool", ToolCallID: malformedID, Content: said.Malformed.Error()})
	}
	return a, nil
}

// wrong counts the calls that failed, if the tools count them.
func (b toolEpisode) wrong() int {
	if k, counts := b.kit.(interface{ Wrong() int }); counts {
		return k.Wrong()
	}
	return 0
}

// Spent grades the last turn.
func (b toolEpisode) Spent(ctx context.Context, said Said) (Answer, error) {
	a, err := b.verdict.Turn(ctx, said)
	a.Wrong = b.wrong()
	return a, err
}

func (b toolEpisode) Close() error {
	b.kit.Close()
	return nil
}
