//go:build gpu

package model

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/optim"
)

// These tests run the whole model on an emulated card; docs/cuda.md says what that proves.

// onCard runs the test in each precision, with the tolerance of log-probabilities against the float64 reference.
func onCard(t *testing.T, test func(t *testing.T, b kernels.Backend, o Options, off float64)) {
	for p, off := range map[Precision]float64{F32: 1e-4, BF16: 2e-2} {
		t.Run(p.String(), func(t *testing.T) {
			backendtest.On(t, backendtest.Card(t), func(t *testing.T, b kernels.Backend) { test(t, b, Options{Precision: p, Cache: p}, off) })
		})
	}
}

// worstOf is the largest difference between corresponding numbers.
func worstOf(want [][]float64, got [][]float32) (worst float64) {
	for i := range want {
		for k := range want[i] {
			worst = max(worst, math.Abs(want[i][k]-float64(got[i][k])))
		}
	}
	return worst
}

func TestScoresOfACardMatchTheFloat64Reference(t *testing.T) {
	onCard(t, func(t *testing.T, b kernels.Backend, o Options, off float64) {
		for _, name := range plainCases {
			var want []goldenScore
			readJSON(t, &want, name, "score.json")
			var seqs [][]int32
			var base, adapted [][]float64
			for _, w := range want {
				seqs, base, adapted = append(seqs, w.Tokens), append(base, w.Base), append(adapted, w.Adapter)
			}
			for adapter, reference := range map[string][][]float64{"": base, "adapter": adapted} {
				got, err := openGolden(t, b, name, adapter, o).Score(t.Context(), seqs, 1)
				require.NoError(t, err)
				worst := worstOf(reference, got)
				t.Logf("%s %s: worst difference %.2g", name, adapter, worst)
				require.Less(t, worst, off, "%s %s", name, adapter)
			}
		}
	})
}

// A 4-bit model stays in 4 bits on a card, in less memory, and gives the scores and gradients of the same weights in bf16, to the bit.
func TestFourBitsStayOnACard(t *testing.T) {
	b := backendtest.Card(t)
	defer func() { require.NoError(t, b.Close()) }()
	written, decoded := filepath.Join(t.TempDir(), "written"), filepath.Join(t.TempDir(), "decoded")
	require.NoError(t, nf4.QuantiseModel(t.Context(), goldenDir("qwen3-tied"), written, true))
	require.NoError(t, nf4.DequantiseModel(t.Context(), written, decoded))
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	var bytes [2]int
	var scores [2][][]float32
	var gradients [2][]float32
	for i, dir := range []string{written, decoded} {
		p, err := Open(b, dir, false, Options{Precision: BF16, Cache: BF16})
		require.NoError(t, err)
		a, err := lora.Load(goldenDir("qwen3-tied", "train_init"), p.LoRADims())
		require.NoError(t, err)
		require.NoError(t, p.Attach(a))
		bytes[i] = p.WeightBytes()
		scores[i], err = p.Score(t.Context(), [][]int32{{1, 2, 3, 80, 95, 0, 17, 5, 5, 80, 81, 82}}, 1)
		require.NoError(t, err)
		_, err = p.Accumulate(t.Context(), train.Datums, importanceSampling)
		require.NoError(t, err)
		g, err := p.Gradients()
		require.NoError(t, err)
		gradients[i] = g.Values
	}
	require.Less(t, 3*bytes[0], 2*bytes[1], "the embedding stays in bf16")
	require.Equal(t, scores[1], scores[0])
	require.Equal(t, gradients[1], gradients[0])
	require.NotZero(t, slices.Max(gradients[0]))
}

// Gradients, and the adapter after two steps of the optimizer.
func TestTrainingOnACardMatchesTheFloat64Reference(t *testing.T) {
	onCard(t, func(t *testing.T, b kernels.Backend, o Options, off float64) {
		for _, name := range plainCases {
			var train goldenTrain
			readJSON(t, &train, name, "train.json")
			p := openGolden(t, b, name, "train_init", o)
			stats, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
			require.NoError(t, err)
			require.InEpsilon(t, train.Steps[0].Loss, stats.Loss, off)

			file, err := tensorfile.Open(goldenDir(name, "grads_step1.safetensors"))
			require.NoError(t, err)
			defer file.Close()
			grads, err := p.Gradients()
			require.NoError(t, err)
			var want []float32
			for _, e := range grads.Entries() {
				tensor, err := file.Tensor(e.Name, e.Rows, e.Cols)
				require.NoError(t, err)
				want = append(want, tensorfile.Float32s(tensor)...)
			}
			var got []float32
			for _, e := range grads.Entries() {
				got = append(got, grads.Of(e)...)
			}
			d := distance(got, want)
			t.Logf("%s: distance of the gradients %.2g, loss %v (reference %v)", name, d, stats.Loss, train.Steps[0].Loss)
			require.Less(t, d, 2e-2)

			params, slab, locate := p.Slabs()
			a := train.Adam
			adam, err := optim.NewAdam(b, params, slab, optim.Config{Beta1: a.Beta1, Beta2: a.Beta2, Eps: a.Eps, WeightDecay: a.WeightDecay}, locate)
			require.NoError(t, err)
			update, err := adam.Step(a.LR)
			require.NoError(t, err)
			require.InEpsilon(t, train.Steps[0].GradNorm, update.GradNorm, 2e-2)
			p.Publish()
			again, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
			require.NoError(t, err)
			require.InEpsilon(t, train.Steps[1].Loss, again.Loss, off)
		}
	})
}

// With rows stored in bf16 for the gradients, no number of the forward pass changes, and gradients do not depend on recomputation.
func TestWhatWaitsInBF16OnACard(t *testing.T) {
	backendtest.On(t, backendtest.Card(t), testNarrow)
}

// The tests of serving on other backends hold on a card, too.
func TestServingOnACard(t *testing.T) {
	backendtest.On(t, backendtest.Card(t), func(t *testing.T, b kernels.Backend) {
		testServed(t, b, "qwen3-tied", Options{Precision: BF16, Cache: BF16})
		testOptions(t, b, Options{Precision: BF16})
	})
}

// A fully trained model has the processor's gradients, but for rounding.
func TestAWholeModelTrainsInBF16OnACard(t *testing.T) {
	processor := backendtest.CPU(t, cpu.Options{})
	defer func() { require.NoError(t, processor.Close()) }()
	for _, name := range plainCases {
		_, exact := wholeGradients(t, processor, name, Options{})
		backendtest.On(t, backendtest.Card(t), func(t *testing.T, b kernels.Backend) {
			p, got := wholeGradients(t, b, name, allBF16)
			t.Logf("%s: worst distance of a gradient %.2g", name, compareSlots(t, p, got, exact))
		})
	}
}
