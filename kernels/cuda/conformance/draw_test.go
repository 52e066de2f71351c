//go:build gpu

package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// drawParams are the sampling parameters of a row, and its random number.
type drawParams struct {
	invTemp, topP, minP float32
	topK                int32
	uniform             float64
}

// draw draws a token with each of the parameters, all from the same row of h or each from its own.
func (tb testBackend) draw(w kernels.Matrix, h []float32, params []drawParams) (tokens []int32, logps []float32) {
	n := len(params)
	if len(h) == w.Cols() {
		h = slices.Repeat(h, n)
	}
	var invTemp, topP, minP []float32
	var topK []int32
	var uniform []float64
	for _, d := range params {
		invTemp, topP, minP = append(invTemp, d.invTemp), append(topP, d.topP), append(minP, d.minP)
		topK, uniform = append(topK, d.topK), append(uniform, d.uniform)
	}
	out := kernels.DrawOut{Token: tb.of(slices.Repeat([]int32{-9}, n)), LogP: tb.of(make([]float32, n))}
	tb.Draw(out, tb.of(h), w, kernels.DrawIn{InvTemp: tb.of(invTemp), Uniform: tb.of(uniform), TopK: tb.of(topK), TopP: tb.of(topP),
		MinP: tb.of(minP)}, n)
	tokens = make([]int32, n)
	require.NoError(tb.t, tb.Download(tokens, out.Token))
	return tokens, numbers(tb.t, tb, out.LogP)
}

// spread is n times d, with uniforms spread over [0, 1), none of them on a boundary between tokens.
func spread(d drawParams, n int) (params []drawParams) {
	for i := range n {
		d.uniform = (float64(i) + 0.37) / float64(n)
		params = append(params, d)
	}
	return params
}

// If top-k or top-p cuts among equally likely tokens of several chunks, those with the smaller ids are kept, as by the oracle. The second
// distribution has chunks of different mass. With H = 1 logits are exact.
func TestDrawsAmongEquals(t *testing.T) {
	card, reference := testBackend{opened(t)(), t}, testBackend{kerneltest.NewReference(), t}
	defer func() { require.NoError(t, card.Close()) }()
	const V = 9000
	r := rand.New(rand.NewPCG(1, 2))
	equals, distinct := make([]float32, V), make([]float32, V) // the chunks of the second have different masses
	for i := range V {
		equals[i] = float32(r.IntN(9)-4) / 2
		distinct[i] = float32(r.IntN(400)-200)/100 + []float32{0, 1, -0.5}[i/4096]
	}
	equals[17], equals[8999], equals[4096] = 4.5, 4.5, 4.5
	distinct[5000], distinct[5256], distinct[8999] = 5, 5, 5
	var params []drawParams
	for _, d := range []drawParams{
		{1, 1, 0, 0, 0}, {0, 1, 0, 7, 0}, {1, 1, 0, 2, 0}, {1, 1, 0, 3, 0}, {1, 1, 0, 500, 0}, {0.7, 1, 0, 8999, 0}, {1, 0.02, 0, 0, 0},
		{1, 0.6, 0, 0, 0}, {1.3, 0.999, 0, 0, 0}, {1, 0.5, 0, 700, 0}, {1, 0, 0, 700, 0}, {1, 1, 0.3, 0, 0}, {1, 0.3, 0.02, 600, 0},
		{1, 0.99999, 0, 500, 0}, {1, 1, 0, V, 0}, {1, 2, 0, -1, 0},
	} {
		params = append(params, spread(d, 11)...)
	}
	for _, logits := range [][]float32{equals, distinct} {
		want, wantLogps := reference.draw(reference.matrix(kernels.F32, V, 1, logits), []float32{1}, params)
		got, logps := card.draw(card.matrix(kernels.F32, V, 1, logits), []float32{1}, params)
		for i, d := range params {
			require.Equal(t, want[i], got[i], "%+v", d)
			require.InDelta(t, wantLogps[i], logps[i], 2e-6, "%+v", d)
		}
	}
}

// A row's draw does not depend on the other rows, and without truncation a token has the log-probability of LogProb, to the bit.
func TestDrawnRowsAlone(t *testing.T) {
	card := testBackend{opened(t)(), t}
	defer func() { require.NoError(t, card.Close()) }()
	r := rand.New(rand.NewPCG(7, 8))
	for i, s := range []struct{ n, V, H int }{{140, 70, 9}, {9, 9001, 33}, {33, 1, 5}, {20, 4096, 8}, {30, 4097, 8}} {
		w := card.matrix(weightTypes[i%3], s.V, s.H, normals(r, s.V*s.H, 2/math.Sqrt(float64(s.H))))
		h, params := normals(r, s.n*s.H, 1), make([]drawParams, s.n)
		for i := range params {
			params[i] = drawParams{invTemp: []float32{1, 1.3, 0.6, 0}[r.IntN(4)], topP: 1, uniform: r.Float64()}
			if d := &params[i]; i%3 == 0 {
				d.topK, d.topP, d.minP = int32(r.IntN(s.V)), r.Float32(), []float32{0, 0.02}[r.IntN(2)]
			}
		}
		tokens, logps := card.draw(w, h, params)
		for row := range s.n {
			if s.V > 100 && row%4 != 0 {
				continue // to save time
			}
			what := fmt.Sprintf("row %d of %d, %d × %d, %+v", row, s.n, s.V, s.H, params[row])
			x := h[row*s.H : (row+1)*s.H]
			token, logp := card.draw(w, x, params[row:row+1])
			require.Equal(t, tokens[row:row+1], token, what)
			require.Equal(t, logps[row:row+1], logp, what)
			if row%3 == 0 {
				continue
			}
			temperature := params[row].invTemp
			if temperature == 0 {
				temperature = 1
			}
			require.Equal(t, card.score(w, x, token, kernels.Logits{InvTemp: temperature}, true)["LogP"], logp, what)
		}
	}
}

// Uniforms at both ends, tokens of no mass, and NaN logits.
func TestDrawsAtTheEdges(t *testing.T) {
	card := testBackend{opened(t)(), t}
	defer func() { require.NoError(t, card.Close()) }()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	const first, last = 0, 1 - 0x1p-53
	for what, c := range map[string]struct {
		logits []float32
		drawParams
		token int32 // any token if a logit is NaN
		logp  float32
	}{
		"the only token":               {[]float32{3}, drawParams{1, 1, 0, 0, last}, 0, 0},
		"excluded tokens, first":       {[]float32{-inf, -inf, 2, 2, -inf}, drawParams{1, 1, 0, 0, first}, 2, -0.6931472},
		"excluded tokens, last":        {[]float32{-inf, -inf, 2, 2, -inf}, drawParams{1, 1, 0, 0, last}, 3, -0.6931472},
		"tokens of no mass, first":     {[]float32{-500, 2, 2, -500}, drawParams{1, 0.9, 0, 3, first}, 1, -0.6931472},
		"tokens of no mass, last":      {[]float32{-500, 2, 2, -500}, drawParams{1, 1, 0.5, 3, last}, 2, -0.6931472},
		"the first of equals":          {[]float32{1, 5, 5, 5}, drawParams{0, 1, 0, 0, last}, 1, -1.104699},
		"one of equals":                {[]float32{1, 5, 5, 5}, drawParams{1, 0.01, 0, 0, last}, 1, 0},
		"min-p of 1 keeps equals":      {[]float32{1, 5, 5, 5}, drawParams{1, 1, 1, 0, last}, 3, -1.0986123},
		"zeros of both signs are one":  {[]float32{-1, float32(math.Copysign(0, -1)), 0}, drawParams{0.5, 1, 0, 1, last}, 1, 0},
		"a logit that is no number":    {[]float32{1, nan, 2}, drawParams{1, 1, 0, 0, 0.5}, 0, nan},
		"no number, and the likeliest": {[]float32{1, nan, 2}, drawParams{0, 1, 0, 0, 0.5}, 2, nan},
		"no number, and truncations":   {[]float32{1, nan, 2}, drawParams{1, 0.9, 0.1, 2, 0.5}, 0, nan},
		"no numbers":                   {[]float32{nan, nan}, drawParams{0, 0.9, 0.1, 2, 0.5}, 0, nan},
	} {
		tokens, logps := card.draw(card.matrix(kernels.F32, len(c.logits), 1, c.logits), []float32{1}, []drawParams{c.drawParams})
		if c.logp != c.logp {
			require.True(t, logps[0] != logps[0], "%s: log-probability %v", what, logps[0])
			require.True(t, tokens[0] >= 0 && int(tokens[0]) < len(c.logits), "%s: token %d", what, tokens[0])
			continue
		}
		require.Equal(t, c.token, tokens[0], what)
		require.InDelta(t, c.logp, logps[0], 1e-6, what)
	}
}

// If a logit is NaN, the most likely tokens are still in the vocabulary; a token outside of it has no log-probability.
func TestScoredDrawsAtTheEdges(t *testing.T) {
	card := testBackend{opened(t)(), t}
	defer func() { require.NoError(t, card.Close()) }()
	nan := float32(math.NaN())
	for _, logits := range [][]float32{{1, nan, 2, 0}, {nan, nan, nan, nan}, slices.Repeat([]float32{nan}, 300), {1, 3, 2, 0}} {
		n := func() kernels.Buffer { return card.of([]float32{0, 0}) }
		out := kernels.DrawOut{Token: card.of([]int32{-9, -9}), LogP: n(), Raw: n(), Tops: 3, TopToken: card.of(slices.Repeat([]int32{-9}, 6)),
			TopLogP: card.of(make([]float32, 6))}
		one := card.of([]float32{1, 1})
		card.Draw(out, one, card.matrix(kernels.F32, len(logits), 1, logits), kernels.DrawIn{InvTemp: one, Uniform: card.of([]float64{0, 0}),
			TopK: card.of([]int32{0, 0}), TopP: one, MinP: n(), Given: card.of([]int32{2, int32(len(logits))})}, 2)
		tokens := make([]int32, 6)
		require.NoError(t, card.Download(tokens, out.TopToken))
		raw := numbers(t, card, out.Raw)
		require.True(t, raw[1] != raw[1], "%v: %v", logits, raw)
		if logits[1] == 3 {
			require.Equal(t, []int32{1, 2, 0, 1, 2, 0}, tokens)
			require.InDelta(t, -1.4401897, raw[0], 1e-6)
			continue
		}
		require.True(t, raw[0] != raw[0], "%v: %v", logits, raw)
		for _, token := range tokens {
			require.True(t, token >= 0 && int(token) < len(logits), "%v: %v", logits, tokens)
		}
	}
}
