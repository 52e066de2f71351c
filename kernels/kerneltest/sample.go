package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/paged"
)

// testSampling checks the operations of a sampler: attention over a cache against attention over packed
// rows, and draws against those of the reference.
func testSampling(t *testing.T, s suite) {
	t.Run("paged attention is attention", func(t *testing.T) { testPaged(t, s.each(), cacheTypes...) })
	t.Run("draws", func(t *testing.T) { testDraws(t, s) })
	t.Run("a drawn token's log-probability", func(t *testing.T) { testDrawnLogProbs(t, s) })
	t.Run("masks, given tokens, and the most likely ones", func(t *testing.T) { testDrawOptions(t, s) })
}

func testPaged(t *testing.T, backends []*backend, types ...kernels.DType) {
	for _, m := range backends {
		for _, h := range attnShapes {
			for _, kv := range types {
				paged.Test(t, m.Backend, h, kv)
			}
		}
	}
}

func testDrawnLogProbs(t *testing.T, s suite) {
	for _, m := range s.each() {
		testDrawnLogProb(t, m)
	}
}

// samplingParams are the sampling parameters of a row.
type samplingParams struct {
	invTemp, topP, minP float32
	topK                int32
	cap                 float32
}

var samplingCases = []samplingParams{
	{1, 1, 0, 0, 0}, {0.7, 1, 0, 0, 0}, {1.4, 1, 0, 0, 2}, {0, 1, 0, 0, 0}, {0, 1, 0, 0, 2}, {1, 1, 0, 1, 0}, {1, 1, 0, 5, 0},
	{0.8, 1, 0, 40, 1}, {1, 0.5, 0, 0, 0}, {1.2, 0.95, 0, 0, 0}, {1, 0.01, 0, 0, 0}, {1, 1, 0.05, 0, 0}, {1, 1, 1, 0, 0},
	{0.9, 0.8, 0.1, 30, 3}, {1, 0.995, 0, 0, 0}, {1, 1, 0, 50, 0}, {1, 0.9995, 0, 300, 0},
}

// draws makes the operands of n rows that all have the same state, and draws.
func (m *backend) draws(h []float32, w kernels.Matrix, d samplingParams, uniforms []float64) (tokens []int32, logps []float32) {
	r := m.scored(h, w, drawOptions{samplingParams: d, uniforms: uniforms})
	return r.tokens, r.logps
}

// testDraws requires the tokens of the reference, unless a uniform number is within rounding error of the
// border between two, and close log-probabilities.
func testDraws(t *testing.T, s suite) {
	t.Helper()
	const H = 24
	for _, V := range []int{1, 33, 1024, 2500} {
		h, weights := fixedNormals("h", H), fixedNormals("w", V*H)
		for i := range weights {
			weights[i] /= 4
		}
		uniforms := make([]float64, 41)
		for i := range uniforms {
			uniforms[i] = (float64(i) + 0.37) / float64(len(uniforms))
		}
		for _, d := range samplingCases {
			r := cached(fmt.Sprintf("draws of %d: %+v", V, d), func() scored {
				return s.reference.scored(h, s.reference.load(kernels.F32, V, H, weights), drawOptions{samplingParams: d, uniforms: uniforms})
			})
			want, wantLogps := r.tokens, r.logps
			for _, m := range s.each() {
				tokens, logps := m.draws(h, m.load(kernels.F32, V, H, weights), d, uniforms)
				differ := 0
				for i := range tokens {
					if tokens[i] != want[i] {
						differ++
					} else if math.Abs(float64(logps[i]-wantLogps[i])) > 4*s.tolerance.F32 {
						t.Errorf("%s: V %d, %+v: log-probability %v of token %d, expected %v",
							m.Name(), V, d, logps[i], tokens[i], wantLogps[i])
					}
				}
				if differ > 0 {
					t.Errorf("%s: V %d, %+v: %d of %d tokens differ: %v, expected %v", m.Name(), V, d, differ, len(tokens), tokens, want)
				}
			}
		}
	}
}

// testDrawnLogProb: without truncation, Draw returns the log-probabilities of LogProb, with the same bits.
func testDrawnLogProb(t *testing.T, m *backend) {
	t.Helper()
	const H, V = 40, 3000
	w := m.load(kernels.BF16, V, H, fixedNormals("w", V*H))
	h := fixedNormals("h", H)
	for i := range h {
		h[i] /= 4
	}
	for _, l := range []kernels.Logits{{InvTemp: 1 / 0.7}, {InvTemp: 1}, {InvTemp: 1 / 1.3}, {InvTemp: 1, Cap: 3}, {InvTemp: 1.7, Cap: 2}} {
		uniforms := []float64{0, 0.1, 0.5, 0.9, 0.999999, 1 - 0x1p-53}
		tokens, logps := m.draws(h, w, samplingParams{l.InvTemp, 1, 0, 0, l.Cap}, uniforms)
		n := len(tokens)
		out := kernels.LogProbOut{LogP: m.zeros(kernels.F32, n), Entropy: m.zeros(kernels.F32, n), LSE: m.zeros(kernels.F32, n)}
		m.LogProb(out, m.f32(slices.Repeat(h, n)...), w, m.i32(tokens...), l, n)
		equal(t, m.Name(), result{{1, m.read(out.LogP)}}, result{{1, logps}})
	}
}
