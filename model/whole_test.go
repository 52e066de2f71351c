package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/optim"
)

var allBF16 = Options{Precision: BF16, Cache: BF16}

// inBothOrders is for full training in bf16, in both orders of summation.
func inBothOrders(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
		t.Run(order.String(), func(t *testing.T) {
			backendtest.On(t, backendtest.CPU(t, cpu.Options{Order: order}), test)
		})
	}
}

// In full training, products read the weights rounded to bf16, and scores equal those of the saved model, opened frozen: to the bit.
func TestAWholeModelRoundsItsWeights(t *testing.T) {
	inBothOrders(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range familyCases {
			var train goldenTrain
			readJSON(t, &train, name, "train.json")
			scores := func(p *Policy) [][]float32 {
				s, err := p.Score(t.Context(), train.sequences(), 1)
				require.NoError(t, err)
				return s
			}
			whole, err := Open(b, goldenDir(name), true, allBF16)
			require.NoError(t, err)
			before := scores(whole)
			require.Equal(t, scores(openGolden(t, b, name, "", allBF16)), before, name)

			m := whole.trained.(*masters)
			values := make([]float32, m.slab.Params.Len())
			require.NoError(t, b.Download(values, m.slab.Params))
			random := rand.New(rand.NewPCG(1, 1))
			for _, s := range m.order {
				for i := m.offsets[s.Name]; i < m.offsets[s.Name]+s.Size() && !s.Vector; i++ {
					values[i] *= 1 + 0.01*random.Float32() // vectors stay bf16
				}
			}
			b.Upload(m.slab.Params, values)
			_, err = whole.Hash()
			require.ErrorContains(t, err, "was changed but not published")
			whole.Publish()
			_, err = whole.Hash()
			require.NoError(t, err)
			after := scores(whole)
			require.NotEqual(t, before, after)
			dir := t.TempDir()
			require.NoError(t, whole.SaveModel(dir))
			frozen, err := Open(b, dir, false, allBF16)
			require.NoError(t, err)
			require.Equal(t, scores(frozen), after, name)
			dir = t.TempDir()
			require.NoError(t, whole.Save(dir, goldenDir(name))) // in f32: rounded when it is opened
			frozen, err = Open(b, dir, false, allBF16)
			require.NoError(t, err)
			require.Equal(t, scores(frozen), after, name)
			_, err = Sketch(kernels.NewLedger(b), dir, false, allBF16)
			require.NoError(t, err)
		}
	})
}

// wholeGradients are the gradients of full training, and the model.
func wholeGradients(t *testing.T, b kernels.Backend, name string, o Options) (p *Policy, grads []float32) {
	var train goldenTrain
	readJSON(t, &train, name, "train.json")
	p, err := Open(b, goldenDir(name), true, o)
	require.NoError(t, err)
	_, err = p.Accumulate(t.Context(), train.Datums, importanceSampling)
	require.NoError(t, err)
	_, slab, _ := p.Slabs()
	grads = make([]float32, slab.Len())
	require.NoError(t, b.Download(grads, slab))
	return p, grads
}

// compareSlots requires that each tensor's gradient is close to the exact one, but not equal.
func compareSlots(t *testing.T, p *Policy, got, exact []float32) (worst float64) {
	m := p.trained.(*masters)
	for _, s := range m.order {
		from := m.offsets[s.Name]
		d := distance(got[from:from+s.Size()], exact[from:from+s.Size()])
		worst = max(worst, d)
		require.NotZero(t, d, s.Name)
		require.Less(t, d, 3e-2, s.Name)
	}
	return worst
}

// Each tensor's gradient in bf16 is close to the unrounded one, and does not depend on the number of threads.
func TestGradientsOfAWholeModelInBF16(t *testing.T) {
	race.SkipSerial(t)
	gradients := func(name string, o Options, with cpu.Options) (p *Policy, grads []float32) {
		b := backendtest.CPU(t, with)
		defer func() { require.NoError(t, b.Close()) }()
		return wholeGradients(t, b, name, o)
	}
	for _, name := range familyCases {
		_, exact := gradients(name, Options{}, cpu.Options{})
		for _, order := range []kernels.Order{kernels.Serial, kernels.Tiles} {
			p, got := gradients(name, allBF16, cpu.Options{Order: order})
			worst := compareSlots(t, p, got, exact)
			t.Logf("%s, %v: worst distance of a gradient %.2g", name, order, worst)
			for _, threads := range []int{1, 3} {
				_, again := gradients(name, allBF16, cpu.Options{Order: order, Threads: threads})
				require.True(t, slices.Equal(got, again), "%s, %v, %d threads", name, order, threads)
			}
		}
	}
}

// Full training in bf16 learns: f32 master weights take steps that would be lost in 8 bits.
func TestAWholeModelLearnsInBF16(t *testing.T) {
	inBothOrders(t, func(t *testing.T, b kernels.Backend) {
		var train goldenTrain
		readJSON(t, &train, "qwen3-tied", "train.json")
		p, err := Open(b, goldenDir("qwen3-tied"), true, allBF16)
		require.NoError(t, err)
		params, grads, locate := p.Slabs()
		adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), locate)
		require.NoError(t, err)
		var losses []float64
		for range 8 {
			adam.ZeroGrad()
			stats, err := p.Accumulate(t.Context(), train.Datums,
				Objective{Loss: kernels.Loss{Kind: kernels.CrossEntropy}, Reduction: TokenMean, Temperature: 1})
			require.NoError(t, err)
			losses = append(losses, stats.Loss)
			_, err = adam.Step(1e-4)
			require.NoError(t, err)
			p.Publish()
		}
		t.Logf("%.4f", losses)
		require.IsDecreasing(t, losses)
	})
}
