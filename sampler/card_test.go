//go:build gpu

package sampler

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/model"
)

// On an emulated card, in each precision: recorded log-probabilities are those of the trainer's kernels, bit for bit, and a request draws
// the same alone and beside others, in any chunks.
func TestOnACard(t *testing.T) {
	for _, o := range []model.Options{{Precision: model.BF16, Cache: model.BF16}, {}} {
		t.Run(o.Precision.String(), func(t *testing.T) {
			b := backendtest.Card(t)
			defer func() { require.NoError(t, b.Close()) }()
			p := openWith(t, b, "qwen3-untied-sharded", "adapter", o)
			if o.Cache == model.BF16 { // whose kernels read most positions at a time
				freesBehindTheWindow(t, openWith(t, b, "mistral-yarn", "", o))
			}
			asked := requests(p.Vocab, 0.7, 7)
			together := sampleAll(t, engine(t, p, Options{MaxLength: 128, MaxSequences: 16}), asked)
			for _, r := range together {
				prompt := asked[r.Request].Prompt
				scores, err := p.Score(t.Context(), [][]int32{append(append([]int32(nil), prompt...), r.Tokens...)}, 0.7)
				require.NoError(t, err)
				require.Equal(t, scores[0][len(prompt)-1:], r.LogProbs, "request %d", r.Request)
			}
			var alone []Rollout
			small := engine(t, p, Options{MaxLength: 128, MaxSequences: 1, TokenBudget: 7})
			for i, r := range asked[:4] {
				for _, got := range sampleAll(t, small, []Request{r}) {
					got.Request = i
					alone = append(alone, got)
				}
			}
			require.Equal(t, together[:len(alone)], alone)
		})
	}
}

// freesBehindTheWindow draws a sequence whose blocks before the window are reused by another one, and scores both. The device reports
// reads of memory that was not written.
func freesBehindTheWindow(t *testing.T, p *model.Policy) {
	t.Helper()
	e := engine(t, p, Options{MaxLength: 192, MaxSequences: 2, TokenBudget: 64, CacheBytes: int64(7 * p.BlockBytes())})
	rng := rand.New(rand.NewPCG(8, 8))
	asked := []Request{
		{Prompt: randomTokens(rng, p.Vocab, 150), N: 1, Params: Params{Temperature: 1, MaxTokens: 12}},
		{Prompt: randomTokens(rng, p.Vocab, 100), N: 1, Key: Key{Problem: 1}, Params: Params{Temperature: 1, MaxTokens: 4}},
	}
	for _, r := range sampleAll(t, e, asked) {
		prompt := asked[r.Request].Prompt
		scores, err := p.Score(t.Context(), [][]int32{append(append([]int32(nil), prompt...), r.Tokens...)}, 1)
		require.NoError(t, err)
		require.Equal(t, scores[0][len(prompt)-1:], r.LogProbs, "request %d", r.Request)
	}
}
