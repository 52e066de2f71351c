package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
)

// testLoss compares every objective with the reference, and checks the cases that must be exact.
func testLoss(t *testing.T, s suite) {
	for _, name := range []string{"importance_sampling", "ppo", "cispo", "cross_entropy"} {
		loss, err := kernels.ParseLoss(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{0, 1, 7, 33, 100, 3000} {
			t.Run(fmt.Sprintf("%s/%d", name, rows), func(t *testing.T) {
				in := drawLoss(name, rows)
				want, wantStats := s.reference.loss(in, loss)
				first, firstStats := s.backends[0].loss(in, loss)
				nearSlice(t, "dlogp", 0, 1e-6, output{1, want}, output{1, first})
				for i, w := range wantStats {
					off := math.Abs(firstStats[i] - w)
					if firstStats[i] != w && (math.IsInf(w, 0) || !(off <= 1e-9*(1+math.Abs(w)))) {
						t.Errorf("statistic %d is %v, expected %v", i, firstStats[i], w)
					}
				}
				for _, m := range s.backends {
					again, stats := m.loss(in, loss)
					equal(t, m.Name(), result{{1, first}}, result{{1, again}})
					if stats != firstStats {
						t.Errorf("%s: statistics %v, expected the bits of %v", m.Name(), stats, firstStats)
					}
				}
			})
		}
	}
	t.Run("on policy", func(t *testing.T) { testOnPolicy(t, s.backends[1]) })
	t.Run("rows of weight zero", func(t *testing.T) { testZeroWeights(t, s.backends[1]) })
}

// lossRows are the columns of kernels.LossIn.
type lossRows struct{ logp, entropy, old, advantage, weight []float32 }

func drawLoss(name string, rows int) (in lossRows) {
	r := rand.New(rand.NewPCG(seed(name), uint64(rows)))
	for range rows {
		logp := -3 * r.Float32()
		in.logp = append(in.logp, logp)
		in.old = append(in.old, logp+normal(r))
		in.entropy = append(in.entropy, positive(r))
		in.advantage = append(in.advantage, float32(r.IntN(3)-1)*positive(r)) // a third are 0
		in.weight = append(in.weight, float32(r.IntN(4))/3)                   // a quarter are 0
	}
	return in
}

func (m *backend) loss(in lossRows, l kernels.Loss) (dlogp []float32, stats [kernels.NumStats]float64) {
	T := len(in.logp)
	d := m.f32(make([]float32, T)...)
	sum := m.zeros(kernels.F64, kernels.NumStats)
	m.Loss(d, sum, kernels.LossIn{
		LogP: m.f32(in.logp...), Entropy: m.f32(in.entropy...), OldLogP: m.f32(in.old...),
		Advantage: m.f32(in.advantage...), Weight: m.f32(in.weight...),
	}, l, T)
	copy(stats[:], m.read64(sum))
	return m.read(d), stats
}

// testOnPolicy: if sampler and trainer have the same bits, the ratio is exactly 1 and every objective has
// the same gradient.
func testOnPolicy(t *testing.T, m *backend) {
	in := drawLoss("on policy", 50)
	in.old = in.logp
	var rows float64
	want := make([]float32, len(in.logp))
	for i, w := range in.weight {
		if w != 0 {
			rows++
		}
		want[i] = -w * in.advantage[i]
	}
	for _, name := range []string{"importance_sampling", "ppo", "cispo", "cross_entropy"} {
		loss, _ := kernels.ParseLoss(name)
		dlogp, stats := m.loss(in, loss)
		for i := range want {
			if dlogp[i] != want[i] {
				t.Errorf("%s: dlogp of row %d is %v, expected %v", name, i, dlogp[i], want[i])
			}
		}
		for stat, want := range map[int]float64{
			kernels.StatRows: rows, kernels.StatRatio: rows, kernels.StatRatioSq: rows, kernels.StatRatioMin: 1,
			kernels.StatRatioMax: 1, kernels.StatKL1: 0, kernels.StatKL2: 0, kernels.StatMaxDiff: 0, kernels.StatClipped: 0,
		} {
			if stats[stat] != want {
				t.Errorf("%s: statistic %d is %v, expected exactly %v", name, stat, stats[stat], want)
			}
		}
	}
}

// testZeroWeights: a row of weight zero adds nothing, whatever its other numbers are.
func testZeroWeights(t *testing.T, m *backend) {
	in := drawLoss("weightless", 40)
	for i := range in.weight {
		in.weight[i] = 1
	}
	want, wantStats := m.loss(in, kernels.Loss{})
	in.logp, in.old = append(in.logp, poison), append(in.old, 0)
	in.entropy, in.advantage, in.weight = append(in.entropy, poison), append(in.advantage, poison), append(in.weight, 0)
	got, gotStats := m.loss(in, kernels.Loss{})
	equal(t, "dlogp", result{{1, append(want, 0)}}, result{{1, got}})
	if gotStats != wantStats {
		t.Errorf("statistics %v, expected %v", gotStats, wantStats)
	}
}

func testSumSquares(t *testing.T, s suite) {
	for _, n := range []int{1, 7, 33, 100, 4096, 70001, 300000} {
		x := fixedNormals("squares", n+3)[3:]
		sum := func(m *backend) float64 {
			out := m.zeros(kernels.F64, 1)
			m.SumSquares(out, m.f32(append(make([]float32, n%5), x...)...).Slice(n%5, n%5+n), n)
			return m.read64(out)[0]
		}
		want, first := sum(s.reference), sum(s.backends[0])
		if math.Abs(first-want) > 1e-11*want {
			t.Errorf("%d numbers: %v, expected %v", n, first, want)
		}
		for _, m := range s.backends {
			if got := sum(m); got != first {
				t.Errorf("%s: %d numbers: %v, expected the bits of %v", m.Name(), n, got, first)
			}
		}
	}
}
