package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// drawOptions are the options of a draw for several rows with the same hidden state.
type drawOptions struct {
	samplingParams
	uniforms []float64
	masks    [][]int32 // of the allowed tokens, by row; nil: all are allowed
	given    []int32   // tokens to score instead of drawn ones, by row; nil: none
	tops     int
	raw      bool
}

// scored are the results of Draw.
type scored struct {
	tokens, topTokens    []int32
	logps, raw, topLogps []float32
}

func (m *backend) scored(h []float32, w kernels.Matrix, s drawOptions) (r scored) {
	n := len(s.uniforms)
	out := kernels.DrawOut{Token: m.zeros(kernels.I32, n), LogP: m.zeros(kernels.F32, n), Tops: s.tops}
	in := kernels.DrawIn{Cap: s.cap, InvTemp: m.f32(slices.Repeat([]float32{s.invTemp}, n)...), Uniform: m.zeros(kernels.F64, n),
		TopK: m.i32(slices.Repeat([]int32{s.topK}, n)...), TopP: m.f32(slices.Repeat([]float32{s.topP}, n)...),
		MinP: m.f32(slices.Repeat([]float32{s.minP}, n)...)}
	m.Upload(in.Uniform, s.uniforms)
	if s.masks != nil {
		in.Allowed = m.i32(slices.Concat(s.masks...)...)
	}
	if s.given != nil {
		in.Given = m.i32(s.given...)
	}
	if s.raw {
		out.Raw = m.zeros(kernels.F32, n)
	}
	if s.tops > 0 {
		out.TopToken, out.TopLogP = m.zeros(kernels.I32, n*s.tops), m.zeros(kernels.F32, n*s.tops)
	}
	m.Draw(out, m.f32(slices.Repeat(h, n)...), w, in, n)
	r.tokens, r.logps = m.integers(out.Token), m.read(out.LogP)
	if s.raw {
		r.raw = m.read(out.Raw)
	}
	if s.tops > 0 {
		r.topTokens, r.topLogps = m.integers(out.TopToken), m.read(out.TopLogP)
	}
	return r
}

func (m *backend) integers(b kernels.Buffer) []int32 {
	x := make([]int32, b.Len())
	if err := m.Download(x, b); err != nil {
		panic(err)
	}
	return x
}

// maskOf is the mask of the tokens that are allowed.
func maskOf(V int, allowed func(token int) bool) []int32 {
	words := make([]uint32, kernels.MaskWords(V))
	for v := range V {
		if allowed(v) {
			words[v/32] |= 1 << (v % 32)
		}
	}
	if V%32 != 0 {
		words[len(words)-1] |= ^uint32(0) << (V % 32) // bits after the vocabulary must be ignored
	}
	mask := make([]int32, len(words))
	for i, w := range words {
		mask[i] = int32(w)
	}
	return mask
}

// masksFor are masks of all kinds: everything, a half, a few, one token, and chunks without any.
func masksFor(V int) [][]int32 {
	r := rand.New(rand.NewPCG(uint64(V), 3))
	one := V * 2 / 3
	return [][]int32{
		maskOf(V, func(int) bool { return true }),
		maskOf(V, func(v int) bool { return v == one || r.IntN(2) == 0 }),
		maskOf(V, func(v int) bool { return v == one || r.IntN(100) == 0 }),
		maskOf(V, func(v int) bool { return v == one }),
		maskOf(V, func(v int) bool { return v >= V/2 }),
		maskOf(V, func(v int) bool { return v <= V/3 }),
	}
}

// testDrawOptions compares Draw with all its options with the reference, and with LogProb bit by bit.
func testDrawOptions(t *testing.T, s suite) {
	const H = 24
	testTies(t, s)
	for _, V := range []int{1, 70, 2100} {
		h, weights := fixedNormals("h", H), fixedNormals("w", V*H)
		for i := range weights {
			weights[i] /= 4
		}
		copy(weights[V/2*H:], weights[V/3*H:][:H]) // two equally likely tokens
		all := []*backend{s.backends[1], s.reference}
		if V > 1000 {
			all = all[:1]
			if all[0].Name() == s.reference.Name() {
				return // the reference is slow, and would be compared with itself
			}
		}
		for i, d := range samplingCases {
			q := drawOptions{samplingParams: d, masks: masksFor(V), tops: []int{0, 1, 20, kernels.MostTops}[i%4], raw: i%3 > 0 || i%4 > 0}
			q.tops = min(q.tops, V)
			for range q.masks {
				q.uniforms = append(q.uniforms, 0.37+float64(i)/29)
			}
			if i%5 == 0 {
				q.given = []int32{-1, int32(V - 1), -7, 0, -1, int32(V / 2)}
			}
			want := s.reference.scored(h, s.reference.load(kernels.F32, V, H, weights), q)
			for _, m := range all {
				what := fmt.Sprintf("%s: V %d, %+v", m.Name(), V, q.samplingParams)
				w := m.load(kernels.F32, V, H, weights)
				got := m.scored(h, w, q)
				if !slices.Equal(got.tokens, want.tokens) {
					t.Errorf("%s: tokens %v, expected %v", what, got.tokens, want.tokens)
				}
				nearDraws(t, what, 4*s.tolerance.F32, want, got)
				testDrawBits(t, m, what, h, w, q, got)
			}
		}
	}
}

// testTies: tokens with equal probabilities, to the last bit, are ordered by id, also among allowed tokens.
func testTies(t *testing.T, s suite) {
	const V = 3000
	r := rand.New(rand.NewPCG(4, 4))
	logits := make([]float32, V) // the state is one number, so they are exact
	for i := range logits {
		logits[i] = float32(r.IntN(80)-60) / 4
	}
	logits[2999], logits[1024], logits[31] = 5, 5, 5
	first := maskOf(V, func(v int) bool { return v > 31 && r.IntN(3) > 0 || v == 1024 })
	for _, tops := range []int{1, 2, 50, kernels.MostTops} {
		for _, d := range []samplingParams{{invTemp: 1, topP: 1}, {topP: 1}, {invTemp: 1, topP: 1, topK: 40}} {
			q := drawOptions{samplingParams: d, uniforms: []float64{0.2, 0.9}, tops: tops, raw: true,
				masks: [][]int32{first, maskOf(V, func(v int) bool { return v%5 == 4 })}}
			want := s.reference.scored([]float32{1}, s.reference.load(kernels.F32, V, 1, logits), q)
			m := s.backends[1]
			got := m.scored([]float32{1}, m.load(kernels.F32, V, 1, logits), q)
			if !slices.Equal(got.topTokens, want.topTokens) || !slices.Equal(got.tokens, want.tokens) {
				t.Errorf("%s: %+v, %d tops: tokens %v, expected %v; the most likely are %v, expected %v", m.Name(), d, tops, got.tokens, want.tokens,
					got.topTokens, want.topTokens)
			}
		}
	}
}

// nearDraws requires close log-probabilities.
func nearDraws(t *testing.T, what string, tolerance float64, want, got scored) {
	t.Helper()
	for i, pair := range [][2][]float32{{want.logps, got.logps}, {want.raw, got.raw}, {want.topLogps, got.topLogps}} {
		for k := range pair[0] {
			if !(math.Abs(float64(pair[0][k]-pair[1][k])) <= tolerance) {
				t.Errorf("%s: log-probability %v, number %d of kind %d, expected %v", what, pair[1][k], k, i, pair[0][k])
			}
		}
	}
}

// testDrawBits: a token's log-probability in the whole distribution has the bits of LogProb, whether it was drawn, given or one of the
// most likely; a mask that allows everything changes nothing; and neither do further outputs change a draw.
func testDrawBits(t *testing.T, m *backend, what string, h []float32, w kernels.Matrix, q drawOptions, got scored) {
	t.Helper()
	l := kernels.Logits{InvTemp: q.invTemp, Cap: q.cap}
	if l.InvTemp == 0 {
		l.InvTemp = 1
	}
	tokens, logps := got.tokens, got.raw
	if !q.raw {
		tokens = nil
	}
	tokens, logps = append(slices.Clone(tokens), got.topTokens...), append(slices.Clone(logps), got.topLogps...)
	for i := range q.given {
		if q.given[i] >= 0 {
			tokens, logps = append(tokens, q.given[i]), append(logps, got.logps[i])
		}
	}
	if n := len(tokens); n > 0 {
		out := kernels.LogProbOut{LogP: m.zeros(kernels.F32, n), Entropy: m.zeros(kernels.F32, n), LSE: m.zeros(kernels.F32, n)}
		m.LogProb(out, m.f32(slices.Repeat(h, n)...), w, m.i32(tokens...), l, n)
		equal(t, what, result{{1, m.read(out.LogP)}}, result{{1, logps}})
	}
	plain := drawOptions{samplingParams: q.samplingParams, uniforms: q.uniforms, masks: q.masks}
	bare := m.scored(h, w, plain)
	plain.masks = nil
	unmasked := m.scored(h, w, plain)
	for i := range got.tokens {
		drawn := q.given == nil || q.given[i] < 0
		if drawn && (got.tokens[i] != bare.tokens[i] || got.logps[i] != bare.logps[i]) {
			t.Errorf("%s: row %d drew %d at %v, and %d at %v without further outputs", what, i, got.tokens[i], got.logps[i],
				bare.tokens[i], bare.logps[i])
		}
	}
	if bare.tokens[0] != unmasked.tokens[0] || bare.logps[0] != unmasked.logps[0] {
		t.Errorf("%s: %d at %v with a mask of everything, %d at %v with none", what, bare.tokens[0], bare.logps[0],
			unmasked.tokens[0], unmasked.logps[0])
	}
}
