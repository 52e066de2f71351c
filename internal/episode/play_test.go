package episode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
	"github.com/seed-7879b91d/grpo/sampler"
)

// fakeEnv asks repeatedly, and rewards each answer. The problem's ID selects its behaviour.
type fakeEnv struct {
	mu           sync.Mutex
	opened, left int
	turns        [][]Said // of each episode
	slow         chan struct{}
}

type fakeEpisode struct {
	*fakeEnv
	id string
	at int
}

var errDown = errors.New("the machine is down")

func (q *fakeEnv) Open(_ context.Context, p *data.Problem) (Episode, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.ID == "shut" {
		return nil, errDown
	}
	q.opened++
	q.turns = append(q.turns, nil)
	return &fakeEpisode{q, p.ID, len(q.turns) - 1}, nil
}

func (q *fakeEpisode) Turn(ctx context.Context, said Said) (Answer, error) {
	q.mu.Lock()
	q.turns[q.at] = append(q.turns[q.at], said)
	q.mu.Unlock()
	a := Answer{Reward: float64(said.Turn + 1), Info: map[string]any{"turn": said.Turn}}
	switch {
	case q.id == "down" && said.Turn == 1:
		return a, errDown
	case q.id == "late" && said.Turn == 1:
		<-ctx.Done()
		return a, ctx.Err()
	case q.id == "slow" && said.Turn == 0:
		<-q.slow
	case q.id == "mute":
		return a, nil
	case q.id == "three" && said.Turn == 2:
		a.Over = true
		return a, nil
	}
	a.Messages = []chat.Message{{Role: "user", Content: fmt.Sprintf("and %d?<|im_end|>", said.Turn)}}
	return a, nil
}

func (q *fakeEpisode) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left++
	return nil
}

// newTalk speaks with a small model in which some tokens end a turn.
func newTalk(t *testing.T, o sampler.Options) (*Player, *model.Policy, *sampler.Engine) {
	t.Helper()
	b := backendtest.CPU(t, cpu.Options{})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	golden := filepath.Join("..", "..", "model", "testdata", "golden", "qwen3-tied")
	p, err := model.Open(b, golden, false, model.Options{})
	require.NoError(t, err)
	a, err := lora.Load(filepath.Join(golden, "train_init"), p.LoRADims())
	require.NoError(t, err)
	require.NoError(t, p.Attach(a))
	e, err := sampler.New(p, o)
	require.NoError(t, err)
	tok, err := tokenizer.Load(filepath.Join("..", "..", "data", "tokenizer", "testdata", "small"))
	require.NoError(t, err)
	r, err := chat.New("qwen3_instruct", tok)
	require.NoError(t, err)
	stops := append(r.Stop(), 300, 301, 302, 303, 304, 305, 306, 307, 308, 309, 310)
	return &Player{Renderer: r, Tokenizer: tok, Stops: stops, Limits: Limits{Turns: 4, TurnTokens: 20}}, p, e
}

func starts(ids ...string) (list []Start) {
	for i, id := range ids {
		list = append(list, Start{Problem: &data.Problem{ID: id}, Messages: []chat.Message{{Role: "user", Content: "What is " + id + "?"}},
			Samples: 2, Key: sampler.Key{Seed: 3, Problem: i}})
	}
	return list
}

var sampleParams = sampler.Params{Temperature: 1}

// Episodes end as intended, each is closed, and their tokens are those that the chat format renders for the messages, with the model's
// turns as they were drawn.
func TestEpisodes(t *testing.T) {
	k, p, e := newTalk(t, sampler.Options{MaxLength: 320, MaxSequences: 3})
	q := &fakeEnv{}
	var told []Played
	all := starts("three", "on", "down", "shut", "mute")
	played, err := k.Play(t.Context(), e, q, all, sampleParams, func(p Played) { told = append(told, p) })
	require.NoError(t, err)
	require.ElementsMatch(t, played, told)
	require.Equal(t, 8, q.opened)
	require.Equal(t, 8, q.left)
	for i, got := range played {
		start := all[i/2]
		require.Equal(t, []int{i / 2, i % 2}, []int{got.Request, got.Sample})
		want := map[string]struct {
			ending Ending
			turns  int
			err    string
		}{"three": {Over, 3, ""}, "on": {OutOfTurns, 4, ""}, "down": {Failed, 2, errDown.Error()}, "shut": {Failed, 1, errDown.Error()},
			"mute": {Failed, 1, "the environment has no answer to a turn, and does not end the episode"}}[start.Problem.ID]
		require.Equal(t, want.ending, got.Ending, start.Problem.ID)
		require.Len(t, got.Turns, want.turns)
		if want.err != "" {
			require.EqualError(t, got.Err, want.err)
			continue
		}
		require.NoError(t, got.Err)
		require.Equal(t, float64(want.turns), got.Reward)
		require.Len(t, got.Infos, want.turns)
		checkText(t, k, start, got)
		checkDatum(t, p, got)
	}
}

// checkText compares the tokens of an episode with its messages.
func checkText(t *testing.T, k *Player, start Start, got Played) {
	t.Helper()
	sequence := slices.Clone(got.Prompt)
	before := start.Messages
	for i, turn := range got.Turns {
		drawn := got.Tokens[turn.Start:turn.End]
		sequence = append(sequence, drawn...)
		ended := slices.Contains(k.Stops, drawn[len(drawn)-1])
		require.Equal(t, turn.Finish == sampler.Stop, ended)
		if i+1 < len(got.Turns) {
			said, after := got.Messages[2*i], got.Messages[2*i+1]
			more, _, err := k.Renderer.Continue(before, ended, []chat.Message{after})
			require.NoError(t, err)
			sequence = append(sequence, more...)
			before = slices.Concat(before, []chat.Message{said, after})
		}
	}
	require.Equal(t, sequence, slices.Concat(got.Prompt, got.Tokens))
}

// checkDatum trains on an episode: the trainer agrees with the sampler to the bit on the drawn tokens.
func checkDatum(t *testing.T, p *model.Policy, got Played) {
	t.Helper()
	drawn := 0
	for _, turn := range got.Turns {
		drawn += turn.End - turn.Start
	}
	d := got.Datum(0.5)
	require.Equal(t, drawn, d.Trainable())
	require.Equal(t, slices.Concat(got.Prompt, got.Tokens), append(slices.Clone(d.Tokens), d.Targets[d.Rows()-1]))
	stats, err := p.Accumulate(t.Context(), []model.Datum{d}, model.Objective{Loss: kernels.Loss{Kind: kernels.ImportanceSampling},
		Reduction: model.Sum, Temperature: 1})
	require.NoError(t, err)
	require.Equal(t, drawn, stats.Rows)
	require.Zero(t, stats.MaxDiff)
}

// Episodes do not depend on each other: neither on their number, nor on how long others take.
func TestEpisodesStandAlone(t *testing.T) {
	k, _, e := newTalk(t, sampler.Options{MaxLength: 320, MaxSequences: 2})
	slow := make(chan struct{})
	all := starts("slow", "three", "on")
	others := 4
	played, err := k.Play(t.Context(), e, &fakeEnv{slow: slow}, all, sampleParams, func(p Played) {
		if p.Request > 0 {
			if others--; others == 0 {
				close(slow) // so that it answers when all others are over
			}
		}
	})
	require.NoError(t, err)
	_, _, narrow := newTalk(t, sampler.Options{MaxLength: 320, MaxSequences: 8, CacheBytes: e.CacheBytes / 2})
	again, err := k.Play(t.Context(), narrow, &fakeEnv{slow: slow}, all, sampleParams, nil)
	require.NoError(t, err)
	for _, all := range [][]Played{played, again} {
		for i := range all {
			require.Positive(t, all[i].Took)
			all[i].Took = 0 // depends on the clock
		}
	}
	require.Equal(t, played, again)
}

// The limits hold: tokens of a turn, tokens of an episode, and time.
func TestBudgets(t *testing.T) {
	k, _, e := newTalk(t, sampler.Options{MaxLength: 320})
	k.Stops, k.Tokens, k.Turns = k.Renderer.Stop(), 60, 9
	played, err := k.Play(t.Context(), e, &fakeEnv{}, starts("on"), sampleParams, nil)
	require.NoError(t, err)
	for _, got := range played {
		require.Equal(t, OutOfTokens, got.Ending)
		require.Len(t, got.Turns, 2)
		require.LessOrEqual(t, len(got.Tokens), 60)
	}
	k.Tokens, k.Time = 0, 20*time.Millisecond
	played, err = k.Play(t.Context(), e, &fakeEnv{}, starts("late"), sampleParams, nil)
	require.NoError(t, err)
	require.Equal(t, Failed, played[0].Ending)
	require.ErrorContains(t, played[0].Err, "the environment took longer than the 20ms for its answers")

	k.Turns, k.Time = 1, 0
	played, err = k.Play(t.Context(), e, &fakeEnv{}, starts("on"), sampleParams, nil)
	require.NoError(t, err)
	require.Len(t, played[0].Turns, 1)
	require.Equal(t, OutOfTurns, played[0].Ending)

	for message, spoil := range map[string]func(*Player){
		"episode 0: turns: found 0, expected 1 or more":             func(k *Player) { k.Turns = 0 },
		"episode 0: tokens of a turn: found -1, expected 1 or more": func(k *Player) { k.TurnTokens = -1 },
		"episode 0: tokens and time of an episode: found -1 and 0s": func(k *Player) { k.Tokens = -1 },
	} {
		bad := *k
		spoil(&bad)
		_, err := bad.Play(t.Context(), e, &fakeEnv{}, starts("on"), sampleParams, nil)
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
	}
}

// Cancelling waits for the environment, and every episode is closed.
func TestEpisodesAreCancelled(t *testing.T) {
	k, _, e := newTalk(t, sampler.Options{MaxLength: 320})
	ctx, cancel := context.WithCancel(t.Context())
	q := &fakeEnv{}
	_, err := k.Play(ctx, e, q, append(starts("late"), starts("three")...), sampleParams, func(Played) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, q.opened, q.left)
	require.Equal(t, e.Blocks, e.FreeBlocks())
}
