package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// Training on a conversation equals training on its turns one by one; log-probabilities of other speakers' tokens are ignored.
func TestAConversationTeachesItsTurns(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p := openFor(t, b, false, Options{})
	random := rand.New(rand.NewPCG(4, 2))
	tokens, logprobs := make([]int32, 41), make([]float32, 40)
	for i := range tokens {
		tokens[i] = int32(random.IntN(p.Vocab))
	}
	for i := range logprobs {
		logprobs[i] = -6 + float32(random.NormFloat64())/4
	}
	spans := [][2]int{{7, 12}, {12, 13}, {20, 30}, {33, 41}}
	whole := NewConversation(tokens, spans, logprobs, 1.5)
	require.Equal(t, 24, whole.Trainable())
	var turns []Datum
	for _, s := range spans {
		turns = append(turns, NewConversation(tokens, [][2]int{s}, logprobs, 1.5))
	}
	noise := slices.Clone(logprobs)
	for i, spoken := range whole.Mask {
		if !spoken {
			noise[i] = []float32{0, 1e30, float32(math.NaN())}[random.IntN(3)]
		}
	}
	for _, share := range []bool{false, true} {
		want, wantStats := sharedGradients(t, p, b, turns, share, importanceSampling)
		got, stats := sharedGradients(t, p, b, []Datum{whole}, share, importanceSampling)
		require.Less(t, distance(got, want), 1e-5)
		require.Equal(t, 24, stats.Rows)
		require.Equal(t, []any{wantStats.Rows, wantStats.RatioMin, wantStats.RatioMax, wantStats.MaxDiff},
			[]any{stats.Rows, stats.RatioMin, stats.RatioMax, stats.MaxDiff})
		require.InEpsilon(t, wantStats.Loss, stats.Loss, 1e-9)

		noisy, noisyStats := sharedGradients(t, p, b, []Datum{NewConversation(tokens, spans, noise, 1.5)}, share, importanceSampling)
		require.Equal(t, got, noisy)
		require.Equal(t, stats, noisyStats)
	}
	long := NewDatum(tokens, 1, logprobs, 1)
	for r, want := range map[Reduction]float32{Sum: 1, TokenMean: 1. / 64, SequenceMean: 1. / 48} {
		batch := Pack([]Datum{whole, long}, 100, r)[0]
		require.Equal(t, want, batch.Weights[6], r)
		require.Zero(t, batch.Weights[13], "a tool's text has no weight")
	}
}
