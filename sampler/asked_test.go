package sampler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/model"
)

// Requested log-probabilities equal those of Score, whatever the distribution that is drawn from; the prompt's tokens are scored once,
// and requesting either changes no draw.
func TestWhatIsToldOfTokens(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "adapter")
	asked := turns(rand.New(rand.NewPCG(9, 9)), p.Vocab, 3, 2)
	want := sampleAll(t, engine(t, p, Options{MaxLength: 128}), asked)
	for i := range asked {
		asked[i].Params.TopK = 30
	}
	cut := sampleAll(t, engine(t, p, Options{MaxLength: 128}), asked)
	require.NotEqual(t, want, cut)
	l := live(t, p, Options{MaxLength: 128, TokenBudget: 21, MaxSequences: 3})
	for k, r := range asked {
		r.Raw, r.ScorePrompt = true, true
		r.Top, r.PromptTop = k%4, k%3
		h, on := listen(r)
		var scored []float32
		var top [][]Likely
		before := false // every token, once
		on.Prompt = func(scores []float32, t [][]Likely) {
			before = scored == nil && len(h.tokens) == 0
			scored, top = slices.Clone(scores), slices.Clone(t)
		}
		_, err := l.Submit(r, on)
		require.NoError(t, err)
		for range r.N {
			got := <-h.done
			w := cut[slices.IndexFunc(cut, func(w Rollout) bool { return w.Request == k && w.Sample == got.Sample })]
			require.Equal(t, w.Tokens, got.Tokens)
			require.Equal(t, w.LogProbs, got.LogProbs)
			whole := slices.Concat(r.Prompt, got.Tokens)
			scores, err := p.Score(t.Context(), [][]int32{whole}, 1)
			require.NoError(t, err)
			require.True(t, math.IsNaN(float64(got.Prompt[0])))
			require.True(t, before)
			require.Equal(t, got.Prompt[1:], scored[1:])
			require.Equal(t, got.PromptTop, top)
			require.Equal(t, scores[0], slices.Concat(got.Prompt[1:], got.Raw))
			require.Zero(t, got.Cached, "scored tokens are not taken from the cache")
			first := len(r.Prompt)
			checkTop(t, r.PromptTop, whole[:first], got.Prompt, got.PromptTop, 1)
			checkTop(t, r.Top, got.Tokens, got.Raw, got.Top, 0)
		}
	}
}

// checkTop compares the most likely tokens at each position with the token there, and its log-probability.
func checkTop(t *testing.T, n int, tokens []int32, logprobs []float32, tops [][]Likely, from int) {
	t.Helper()
	if n == 0 {
		require.Empty(t, tops)
		return
	}
	require.Len(t, tops, len(tokens))
	for i, top := range tops[from:] {
		require.Len(t, top, n)
		require.True(t, slices.IsSortedFunc(top, func(a, b Likely) int { return int(math.Copysign(1, float64(b.LogProb-a.LogProb))) }))
		among := slices.IndexFunc(top, func(l Likely) bool { return l.Token == tokens[from+i] })
		if among >= 0 {
			require.Equal(t, logprobs[from+i], top[among].LogProb)
		} else {
			require.LessOrEqual(t, logprobs[from+i], top[n-1].LogProb)
		}
	}
}

// rising is a constraint: larger tokens with the same remainder by three, as long as there are any.
type rising struct {
	vocab, last int
	asked, came int
}

func (r *rising) Allow(mask []uint32) {
	r.asked++
	for i := range mask {
		mask[i] = 0
	}
	for v := r.last + 3; v < r.vocab; v += 3 {
		mask[v/32] |= 1 << (v % 32)
	}
}

func (r *rising) Accept(token int32) { r.last, r.came = int(token), r.came+1 }

// Constraints hold beside other requests, each sample having its own; one that allows no token fails alone.
func TestConstraintsHold(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	free := Request{Prompt: []int32{4, 5, 6}, N: 2, Params: Params{Temperature: 1.2, MaxTokens: 25}}
	want := sampleAll(t, engine(t, p, Options{MaxLength: 64}), []Request{free})
	l := live(t, p, Options{MaxLength: 64})
	bound := free
	var made []*rising
	bound.Constrain = func() Constraint {
		made = append(made, &rising{vocab: p.Vocab})
		return made[len(made)-1]
	}
	bound.N = 3
	h, on := listen(bound)
	_, err := l.Submit(bound, on)
	require.NoError(t, err)
	others, hear := listen(free)
	_, err = l.Submit(free, hear)
	require.NoError(t, err)
	failed := 0
	for i, r := range h.wait(t, bound) {
		require.True(t, slices.IsSorted(r.Tokens))
		for _, token := range r.Tokens {
			require.Zero(t, token%3)
		}
		require.Equal(t, len(r.Tokens), made[i].came)
		if r.Finish == Failed {
			failed++
			require.ErrorIs(t, r.Err, errNothingAllowed)
			require.Equal(t, made[i].came+1, made[i].asked)
		}
	}
	require.Positive(t, failed)
	require.Equal(t, want, others.wait(t, free))
}

// Each request gets only the log-probabilities that it asked for.
func TestNobodyIsToldWhatOthersAsked(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "")
	plain := Request{Prompt: []int32{4, 5, 6}, N: 1, Params: Params{Temperature: 1, MaxTokens: 9}}
	want := sampleAll(t, engine(t, p, Options{MaxLength: 64}), []Request{plain})[0]
	raw, scored, top := plain, plain, plain
	raw.Raw, scored.ScorePrompt, top.PromptTop = true, true, 2
	all := []Request{plain, raw, scored, top}
	heard, on := make([]*heard, len(all)), make([]Listener, len(all))
	for i, r := range all {
		heard[i], on[i] = listen(r)
	}
	_, err := live(t, p, Options{MaxLength: 64}).SubmitAll(all, on)
	require.NoError(t, err)
	got := make([]Rollout, len(all))
	for i := range all {
		got[i] = <-heard[i].done
		require.Equal(t, want.Tokens, got[i].Tokens)
		require.Equal(t, want.LogProbs, got[i].LogProbs)
		for k, token := range heard[i].tokens[0] {
			require.Equal(t, i == 1, token.Raw != 0)
			require.True(t, i != 1 || token.Raw == got[i].Raw[k])
		}
		require.Equal(t, []bool{i == 1, i == 2, i == 3}, []bool{got[i].Raw != nil, got[i].Prompt != nil, got[i].PromptTop != nil})
	}
	for at, scores := range got[3].PromptTop[1:] {
		require.Len(t, scores, 2)
		require.LessOrEqual(t, got[2].Prompt[at+1], scores[0].LogProb)
	}
}

// A request for no tokens scores its prompt, which may be as long as a sequence, in the smallest cache; nothing is drawn after it.
func TestOnlyThePromptIsScored(t *testing.T) {
	p := open(t, backend(t), "qwen3-tied", "adapter")
	rng := rand.New(rand.NewPCG(4, 4))
	r := Request{Prompt: randomTokens(rng, p.Vocab, 64), N: 2, ScorePrompt: true, PromptTop: 2}
	beside := Request{Prompt: r.Prompt[:30], N: 1, Params: Params{Temperature: 1, MaxTokens: 9}}
	o := Options{MaxLength: 64, CacheBytes: int64(p.BlockBytes() * (64/p.CacheBlock() + 1))}
	want, err := p.Score(t.Context(), [][]int32{r.Prompt}, 1)
	require.NoError(t, err)
	drawn := sampleAll(t, engine(t, p, o), []Request{beside})[0]

	all := sampleAll(t, engine(t, p, o), []Request{r, beside})
	require.Equal(t, drawn.Tokens, all[2].Tokens)
	h, on := listen(r)
	told := 0
	on.Prompt = func([]float32, [][]Likely) { told++ }
	_, err = live(t, p, o).Submit(r, on)
	require.NoError(t, err)
	for _, got := range append(all[:2], h.wait(t, r)...) {
		require.Empty(t, got.Tokens)
		require.Equal(t, Length, got.Finish)
		require.Equal(t, want[0], got.Prompt[1:])
		checkTop(t, 2, r.Prompt, got.Prompt, got.PromptTop, 1)
	}
	require.Equal(t, 1, told, "the scores are the same for all samples")

	r.Next = func(Rollout, func(More)) {}
	_, err = live(t, p, o).Submit(r, on)
	require.ErrorContains(t, err, "max_tokens: found 0, expected 1 or more", "a conversation needs a turn")
}

// A requested number of most likely tokens beyond 32 bits means all of them, and is not truncated to a small one.
func TestMoreMostLikelyTokensThanThereAre(t *testing.T) {
	e := engine(t, open(t, backend(t), "qwen3-tied", ""), Options{MaxLength: 64})
	all := Request{Prompt: []int32{4, 5, 6}, N: 2, Params: Params{Temperature: 1.2, MaxTokens: 25}}
	want := sampleAll(t, e, []Request{all})
	all.Params.TopK = 1<<32 + 1
	require.Equal(t, want, sampleAll(t, e, []Request{all}))
}

// Bits of a mask beyond the vocabulary, in its last word, have no effect.
func TestAMaskEndsWithTheVocabulary(t *testing.T) {
	s := scheduler{Engine: &Engine{cfg: model.Config{Vocab: 40}}}
	every := &sequence{constraint: words{^uint32(0), ^uint32(0)}}
	s.constrain(every)
	require.Equal(t, []uint32{^uint32(0), 0xff}, s.rows.Masks)
	require.NoError(t, every.err)
	s.rows.Masks = nil
	none := &sequence{constraint: words{0, 1 << 8}}
	s.constrain(none)
	require.ErrorIs(t, none.err, errNothingAllowed)
}

// words is a constraint that returns a fixed mask.
type words []uint32

func (w words) Allow(mask []uint32) { copy(mask, w) }
func (w words) Accept(int32)        {}
