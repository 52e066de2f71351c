package episode

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/reward/tools"
	"github.com/seed-7879b91d/grpo/sampler"
)

// script plays an episode with these texts as the model's turns, and returns the tokens after the prompt.
func script(t *testing.T, k *Player, env Environment, start Start, texts ...string) (*attempt, sampler.Rollout) {
	t.Helper()
	p, err := k.open(t.Context(), 2000, env, start, sampleParams)
	require.NoError(t, err)
	p.work = new(sync.WaitGroup)
	var r sampler.Rollout
	for _, text := range texts {
		from := len(r.Tokens)
		r.Tokens = append(append(r.Tokens, k.Tokenizer.Encode(text)...), k.Stops[0])
		r.Turns = append(r.Turns, sampler.Turn{Start: from, End: len(r.Tokens), Finish: sampler.Stop})
		p.next(r, func(m sampler.More) { r.Tokens = append(r.Tokens, m.Tokens...) })
		p.work.Wait()
	}
	return p.tries[0], r
}

// withTools is the start of a conversation with tools.
func withTools() Start {
	start := starts("three")[0]
	start.Tools = []chat.Tool{chat.Tool(`{"type":"function","function":{"name":"run"}}`)}
	return start
}

const (
	twoCalls = `Let me see. <tool_call>{"name": "run", "arguments": {"code": "1"}}</tool_call>` +
		`<tool_call>{"name": "run", "arguments": {}}</tool_call>`
	noCall = "<tool_call>{\"name\": \"run\", \"arguments\": ["
)

// Calls are parsed from the model's turns by the notation of its chat format, if it was offered tools.
func TestCallsAreHeard(t *testing.T) {
	k, _, _ := newTalk(t, sampler.Options{MaxLength: 320})
	q := &fakeEnv{}
	try, _ := script(t, k, q, withTools(), twoCalls, noCall, "done")
	said := q.turns[0]
	require.Equal(t, "Let me see.", said[0].Text)
	require.Equal(t, []Call{{Name: "run", Arguments: []byte(`{"code": "1"}`), ID: "call00000"},
		{Name: "run", Arguments: []byte("{}"), ID: "call00001"}}, said[0].Calls)
	require.NoError(t, said[0].Malformed)
	var malformed *calls.Malformed
	require.ErrorAs(t, said[1].Malformed, &malformed)
	require.Empty(t, said[1].Calls)
	require.Equal(t, "done", said[2].Raw)
	require.NoError(t, try.err)
	require.Equal(t, Over, try.ending)
	require.Equal(t, 1, q.left)

	script(t, k, q, starts("three")[0], twoCalls)
	require.Empty(t, q.turns[1][0].Calls, "without tools in the prompt, calls are not parsed")
	require.Equal(t, twoCalls, q.turns[1][0].Text)
}

// kit has tools that return their arguments.
type kit struct{ closed *int }

func (k kit) Call(_ context.Context, name string, args json.RawMessage) (string, error) {
	if string(args) == `{"code": "1"}` || string(args) == "{}" {
		return name + string(args), nil
	}
	return "", errDown
}

func (k kit) Close() { *k.closed++ }

// Wrong reports that the call of the first turn was invalid.
func (k kit) Wrong() int { return 1 }

var _ Kit = (*tools.Kit)(nil)

// A model calls tools, gets their results and errors of its calls, and its last turn is graded.
func TestAnEnvironmentWithTools(t *testing.T) {
	k, _, _ := newTalk(t, sampler.Options{MaxLength: 320})
	closed := 0
	graded := reward.GraderFunc(func(_ context.Context, c reward.Completion) (reward.Score, error) {
		return reward.Score{Reward: float64(len(c.Text))}, nil
	})
	env := Tools(func(context.Context, *data.Problem) (Kit, error) { return kit{&closed}, nil }, graded)
	try, r := script(t, k, env, withTools(), twoCalls, noCall, "done")
	require.NoError(t, try.err)
	require.Equal(t, []any{Over, 4., 1}, []any{try.ending, try.reward, closed})
	require.Equal(t, 2, try.wrong, "with the one that could not be read")
	wrong := "a tool call that cannot be read: expected a JSON object, and read unexpected end of JSON input"
	require.Equal(t, twoCalls+"<|im_end|>\n<|im_start|>user\n<tool_response>\nrun{\"code\": \"1\"}\n</tool_response>\n"+
		"<tool_response>\nrun{}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"+
		noCall+"<|im_end|>\n<|im_start|>user\n<tool_response>\n"+wrong+"\n</tool_response><|im_end|>\n<|im_start|>assistant\n"+
		"done<|im_end|>", k.Tokenizer.Decode(r.Tokens, false))

	try, _ = script(t, k, env, withTools(), `<tool_call>{"name": "run", "arguments": {"no": 1}}</tool_call>`)
	require.ErrorIs(t, try.err, errDown)
	require.Equal(t, 2, closed)
	require.Equal(t, Failed, try.played(sampler.Rollout{}).Ending)
	cut := errors.New("not drawn to its end")
	require.Equal(t, cut, try.played(sampler.Rollout{Err: cut}).Err, "the first error is reported")

	try, _ = script(t, k, Tools(func(context.Context, *data.Problem) (Kit, error) { return nil, errDown }, graded), withTools(), twoCalls)
	require.ErrorIs(t, try.err, errDown)
	uncounted := func(context.Context, *data.Problem) (Kit, error) { return struct{ Kit }{kit{&closed}}, nil }
	try, _ = script(t, k, Tools(uncounted, graded), withTools(), twoCalls, "done")
	require.NoError(t, try.err)
	require.Zero(t, try.wrong, "a kit that does not count wrong calls has none")
}

// A grader is an environment of one turn.
func TestAGraderIsAnEnvironment(t *testing.T) {
	k, _, e := newTalk(t, sampler.Options{MaxLength: 320})
	grade := reward.GraderFunc(func(_ context.Context, c reward.Completion) (reward.Score, error) {
		if c.Problem.ID == "down" {
			return reward.Score{Excluded: reward.ExcludedInfra, Note: "no sandbox"}, nil
		}
		return reward.Score{Reward: float64(len(c.Text) + c.Tokens)}, nil
	})
	played, err := k.Play(t.Context(), e, Graded(grade), starts("a", "down"), sampleParams, nil)
	require.NoError(t, err)
	for _, got := range played[:2] {
		require.Equal(t, Over, got.Ending)
		require.Equal(t, float64(len(got.Messages[0].Content)+len(got.Tokens)), got.Reward)
		require.Len(t, got.Turns, 1)
	}
	require.EqualError(t, played[2].Err, "not scored: infra: no sandbox")
	require.Equal(t, Failed, played[3].Ending)
}
