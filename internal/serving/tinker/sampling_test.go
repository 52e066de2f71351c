package tinker

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/serving/tinker/client"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/multilora"
	"github.com/seed-7879b91d/grpo/internal/serving/tinker/wire"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/sampler"
)

// drawExactly draws to the given length, without stops.
func drawExactly(n, length int, seed int64) client.SampleParams {
	return client.SampleParams{N: n, Params: map[string]any{"max_tokens": length, "seed": seed, "stop": []int{}}}
}

// A sampling session uses the weights that were saved: later steps do not change it, and the trainer agrees with every log-probability,
// to the bit.
func TestASamplingSessionDoesNotMove(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m := train(t, n, 2)
	teach := func() {
		awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
		stepped(t, m, 1e-2)
	}
	teach()
	unnamed, err := m.Sampling(t.Context())
	require.NoError(t, err)
	path, err := m.SaveSampler(t.Context(), "here")
	require.NoError(t, err)
	named, err := n.Sampling(t.Context(), "", path)
	require.NoError(t, err)
	base, err := n.Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)

	first, err := unnamed.Sample(t.Context(), tokens1, drawExactly(3, 6, 5))
	require.NoError(t, err)
	require.Len(t, first.Sequences, 3)
	require.NotEqual(t, first.Sequences[0].Tokens, first.Sequences[1].Tokens)
	require.True(t, first.Sequences[0].Length)
	q := first.Sequences[0]
	all := append(append([]int32{}, tokens1...), q.Tokens...)
	forward := crossEntropy(weightedDatum(all, 0, 0))
	forward.ForwardOnly = true
	lp := awaitGradient(t, m, forward).LogProbs[0].Floats
	require.Equal(t, lp[len(tokens1)-1:], q.LogProbs)

	teach()
	again, err := named.Sample(t.Context(), tokens1, drawExactly(3, 6, 5))
	require.NoError(t, err)
	require.Equal(t, first.Sequences, again.Sequences)
	other, err := base.Sample(t.Context(), tokens1, drawExactly(3, 6, 5))
	require.NoError(t, err)
	require.NotEqual(t, first.Sequences, other.Sequences)

	score := drawExactly(1, 1, 0)
	score.PromptLogProbs = true
	scored, err := unnamed.Sample(t.Context(), all, score)
	require.NoError(t, err)
	require.Len(t, scored.Prompt, len(all))
	require.True(t, math.IsNaN(float64(scored.Prompt[0])))
	require.Equal(t, lp, scored.Prompt[1:])
	require.Nil(t, scored.Top)

	score.PromptTop = 3
	scored, err = unnamed.Sample(t.Context(), all, score)
	require.NoError(t, err)
	require.Equal(t, lp, scored.Prompt[1:])
	require.Equal(t, 3, scored.Top.K)
	require.Len(t, scored.Top.Tokens, 3*len(all))
	requireTop(t, scored, all)

	var about map[string]any
	require.NoError(t, s.Call(t.Context(), "GET", "samplers/"+named.ID, nil, &about))
	require.Equal(t, map[string]any{"sampler_id": named.ID, "base_model": "tiny", "model_path": path}, about)
}

// A prompt as long as the context is scored, but nothing can be drawn after it.
func TestAPromptAsLongAsTheContextIsScored(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	long := s.server.bases["tiny"].Context
	whole := slices.Repeat(tokens1, long)[:long]
	score := drawExactly(1, 1, 0)
	score.PromptLogProbs = true
	short, err := v.Sample(t.Context(), tokens1, score)
	require.NoError(t, err)
	require.Len(t, short.Sequences[0].Tokens, 1)
	scored, err := v.Sample(t.Context(), whole, score)
	require.NoError(t, err)
	require.Len(t, scored.Prompt, long)
	require.Equal(t, short.Prompt[1:], scored.Prompt[1:len(tokens1)])
	require.Len(t, scored.Sequences, 1)
	require.True(t, scored.Sequences[0].Length)
	require.Empty(t, scored.Sequences[0].Tokens)
	_, err = v.Sample(t.Context(), whole, drawExactly(1, 1, 0))
	require.ErrorContains(t, err, "more than the")
}

// A sampling session over a checkpoint whose name is saved again keeps the old weights.
func TestASamplingSessionOfANameThatIsSavedAgain(t *testing.T) {
	s := serve(t, t.TempDir())
	n := s.connect(t)
	m := train(t, n, 2)
	path, err := m.SaveSampler(t.Context(), "here")
	require.NoError(t, err)
	v, err := n.Sampling(t.Context(), "", path)
	require.NoError(t, err)
	first, err := v.Sample(t.Context(), tokens1, drawExactly(3, 6, 5))
	require.NoError(t, err)
	awaitGradient(t, m, crossEntropy(weightedDatum(tokens1, 3, 1)))
	stepped(t, m, 1e-1)
	await[map[string]any](t)(m.Do(t.Context(), "save_weights_for_sampler", map[string]any{"path": "here", "overwrite": true}))
	_, err = v.Sample(t.Context(), tokens1, drawExactly(3, 6, 5))
	require.ErrorContains(t, err, "user: "+path+" was saved again since this sampling session was made")
	v, err = n.Sampling(t.Context(), "", path)
	require.NoError(t, err)
	newer, err := v.Sample(t.Context(), tokens1, drawExactly(3, 6, 5))
	require.NoError(t, err)
	require.NotEqual(t, first.Sequences, newer.Sequences)
}

// requireTop requires that the most likely tokens of each position are in falling order, and agree with the token there.
func requireTop(t *testing.T, s wire.Sampled, all []int32) {
	t.Helper()
	require.EqualValues(t, wire.Empty, s.Top.LogProbs[0])
	for p := 1; p < len(all); p++ {
		row, tokens := s.Top.LogProbs[3*p:3*p+3], s.Top.Tokens[3*p:3*p+3]
		require.True(t, row[0] >= row[1] && row[1] >= row[2])
		require.LessOrEqual(t, s.Prompt[p], row[0])
		if i := slices.Index(tokens, all[p]); i >= 0 {
			require.Equal(t, s.Prompt[p], row[i])
		}
	}
}

// A stop token ends a completion and is part of it.
func TestStopsAreKept(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	whole, err := v.Sample(t.Context(), tokens1, drawExactly(1, 12, 9))
	require.NoError(t, err)
	tokens := whole.Sequences[0].Tokens
	ask := drawExactly(1, 12, 9)
	ask.Params["stop"] = []int32{tokens[4]}
	cut, err := v.Sample(t.Context(), tokens1, ask)
	require.NoError(t, err)
	require.False(t, cut.Sequences[0].Length)
	require.Equal(t, tokens[:len(cut.Sequences[0].Tokens)], cut.Sequences[0].Tokens)
	require.Equal(t, tokens[4], cut.Sequences[0].Tokens[len(cut.Sequences[0].Tokens)-1])

	stream := s.server.bases["tiny"].Text()
	text := ""
	for _, id := range tokens[:6] {
		text += stream.Push(id)
	}
	ask.Params["stop"] = text[len(text)-1:]
	words, err := v.Sample(t.Context(), tokens1, ask)
	require.NoError(t, err)
	require.False(t, words.Sequences[0].Length)
	require.LessOrEqual(t, len(words.Sequences[0].Tokens), 6)
}

// If stop strings are given, no token ends a completion.
func TestStopTextsAreNoTokens(t *testing.T) {
	base := &Base{Stops: []int32{7}}
	for stop, want := range map[string][]int32{`["x","y"]`: nil, `"x"`: nil, `[3,4]`: {3, 4}, `[]`: {}, `null`: {7}, ``: {7}} {
		var p sampler.Params
		require.NoError(t, base.stops(&p, json.RawMessage(stop)), stop)
		require.Equal(t, want, p.StopTokens, stop)
	}
}

func TestQuestionsThatAreWrong(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	for want, ask := range map[string]client.SampleParams{
		"prompt: 7 tokens and max_tokens 1000":    drawExactly(1, 1000, 0),
		"prompt: 7 tokens and max_tokens 9223":    drawExactly(1, math.MaxInt, 0),
		"num_samples: found 100000":               drawExactly(100000, 4, 0),
		"max_tokens: found -3":                    drawExactly(1, -3, 0),
		"stop: expected":                          {Params: map[string]any{"stop": map[string]int{}}},
		`stop: found ""`:                          {Params: map[string]any{"stop": ""}},
		`"", expected texts with`:                 {Params: map[string]any{"stop": []any{"a", ""}}},
		"stop: found null in it":                  {Params: map[string]any{"stop": []any{1, nil}}},
		"top_p: found 0, expected above 0":        {Params: map[string]any{"top_p": 0}},
		"top_k: found -2, expected 1 or more":     {Params: map[string]any{"top_k": -2}},
		"top_p: found -0.5, expected above 0":     {Params: map[string]any{"top_p": -0.5}},
		"top_p: found 1.5, expected above 0 to 1": {Params: map[string]any{"top_p": 1.5}},
		"max_tokens: found 0, expected 1":         drawExactly(1, 0, 0),
		"temperature: found -1":                   {Params: map[string]any{"temperature": -1}},
		"temperature: found 1e-50, expected 0, which takes the most likely token, or 0.000001": {Params: map[string]any{"temperature": 1e-50}},
		"topk_prompt_logprobs: found 1000": {PromptTop: 1000},
	} {
		_, err := v.Sample(t.Context(), tokens1, ask)
		var failed *client.FailedError
		require.ErrorAs(t, err, &failed, want)
		require.Equal(t, "user", failed.Category)
		require.ErrorContains(t, err, want)
	}
	_, err = v.Sample(t.Context(), nil, drawExactly(1, 4, 0))
	require.ErrorContains(t, err, "user: prompt: found no tokens")
}

// A repeated request gets the same answer, and its sequence number cannot be used for another.
func TestARequestToSampleIsDrawnOnce(t *testing.T) {
	s := serve(t, t.TempDir())
	v, err := s.connect(t).Sampling(t.Context(), "tiny", "")
	require.NoError(t, err)
	v.Seq = 1_000_000_000_000_000_007
	loose := client.SampleParams{Params: map[string]any{"max_tokens": 8, "stop": []int{}}} // without a seed
	one, err := v.Sample(t.Context(), tokens1, loose)
	require.NoError(t, err)
	v.Seq--
	two, err := v.Sample(t.Context(), tokens1, loose)
	require.NoError(t, err)
	require.Equal(t, one, two)
	v.Seq--
	_, err = v.Sample(t.Context(), tokens2, loose)
	var refused *client.RejectedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 400, refused.Code)
}

// When a server ends, waiting requests do not load any more weights.
func TestNothingIsLoadedAtTheEnd(t *testing.T) {
	all, err := bases()
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	errs, loading, goOn, loads := make(chan error), make(chan bool), make(chan bool), atomic.Int32{}
	sample := func(id string) {
		_, err := all[0].Sampler.Sample(ctx, &multilora.Adapter{ID: id, Load: func() (*lora.Adapter, error) {
			if loads.Add(1) == 1 {
				loading <- true
				<-goOn
			}
			return nil, errors.New("no such file")
		}}, sampler.Request{N: 1})
		errs <- err
	}
	go sample("first")
	<-loading
	for _, id := range []string{"a", "b", "c"} {
		go sample(id)
	}
	end()
	close(goOn)
	for range 4 {
		require.Error(t, <-errs)
	}
	require.EqualValues(t, 1, loads.Load())
}
