package model

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/optim"
)

type goldenTrain struct {
	Adam struct {
		LR, Beta1, Beta2, Eps float64
		WeightDecay           float64 `json:"weight_decay"`
	}
	Datums []Datum
	Steps  []struct {
		Loss     float64
		GradNorm float64 `json:"grad_norm"`
	}
}

// sequences are the tokens of the datums.
func (g *goldenTrain) sequences() (seqs [][]int32) {
	for _, d := range g.Datums {
		seqs = append(seqs, d.Tokens)
	}
	return seqs
}

var importanceSampling = Objective{Loss: kernels.Loss{Kind: kernels.ImportanceSampling}, Reduction: Sum, Temperature: 1}

// distance is ‖got − want‖ / ‖want‖.
func distance(got, want []float32) float64 {
	var diff, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	if norm == 0 {
		return math.Sqrt(diff)
	}
	return math.Sqrt(diff / norm)
}

func TestGradientsMatchTheFloat64Reference(t *testing.T) {
	race.SkipSerial(t)
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range goldenOn(b) {
			for _, recompute := range []Recompute{RecomputeNone, RecomputeCheap, RecomputeBlocks} {
				var train goldenTrain
				readJSON(t, &train, name, "train.json")
				p := openGolden(t, b, name, "train_init", Options{Recompute: recompute})
				stats, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
				require.NoError(t, err)
				require.InEpsilon(t, train.Steps[0].Loss, stats.Loss, 1e-4)

				file, err := tensorfile.Open(goldenDir(name, "grads_step1.safetensors"))
				require.NoError(t, err)
				defer file.Close()
				grads, err := p.Gradients()
				require.NoError(t, err)
				worst := 0.0
				for _, e := range grads.Entries() {
					want, err := file.Tensor(e.Name, e.Rows, e.Cols)
					require.NoError(t, err)
					d := distance(grads.Of(e), tensorfile.Float32s(want))
					worst = max(worst, d)
					require.Less(t, d, 1e-5, e.Name)
				}
				t.Logf("%s: worst distance of a gradient %.2g, loss %v (reference %v)", name, worst, stats.Loss, train.Steps[0].Loss)
			}
		}
	})
}

// A whole training: the losses and norms of every step, and the final adapter.
func TestTrainingMatchesTheFloat64Reference(t *testing.T) {
	race.SkipSerial(t)
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		for _, name := range goldenOn(b) {
			var train goldenTrain
			readJSON(t, &train, name, "train.json")
			p := openGolden(t, b, name, "train_init", Options{})
			start, err := p.Adapter()
			require.NoError(t, err)
			params, grads, locate := p.Slabs()
			a := train.Adam
			c := optim.Config{Beta1: a.Beta1, Beta2: a.Beta2, Eps: a.Eps, WeightDecay: a.WeightDecay}
			adam, err := optim.NewAdam(b, params, grads, c, locate)
			require.NoError(t, err)
			for i, want := range train.Steps {
				adam.ZeroGrad()
				stats, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
				require.NoError(t, err)
				require.InEpsilon(t, want.Loss, stats.Loss, 1e-4, "step %d", i+1)
				update, err := adam.Step(a.LR)
				require.NoError(t, err)
				require.InEpsilon(t, want.GradNorm, update.GradNorm, 1e-4, "step %d", i+1)
				p.Publish()
			}
			end, err := p.Adapter()
			require.NoError(t, err)
			want, err := lora.Load(goldenDir(name, "train_final"), p.LoRADims())
			require.NoError(t, err)
			moved, expected := make([]float32, len(start.Values)), make([]float32, len(start.Values))
			for i, v := range start.Values {
				moved[i], expected[i] = end.Values[i]-v, want.Values[i]-v
			}
			d := distance(moved, expected)
			t.Logf("%s: distance of the movement %.2g", name, d)
			require.Less(t, d, 1e-4)
		}
	})
}

// The gradients of all base weights against a difference quotient in their direction: the loss must fall as fast as the gradient says.
func TestFullGradientsPredictTheLoss(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	for _, name := range plainCases {
		var train goldenTrain
		readJSON(t, &train, name, "train.json")
		p, err := Open(b, goldenDir(name), true, Options{})
		require.NoError(t, err)
		_, err = p.Accumulate(t.Context(), train.Datums, importanceSampling)
		require.NoError(t, err)

		params, grads, _ := p.Slabs()
		start, grad := make([]float32, params.Len()), make([]float32, grads.Len())
		require.NoError(t, b.Download(start, params))
		require.NoError(t, b.Download(grad, grads))
		loss := func(values []float32) float64 {
			b.Upload(params, values)
			p.Publish()
			stats, err := p.Accumulate(t.Context(), train.Datums, importanceSampling)
			require.NoError(t, err)
			return stats.Loss
		}
		for _, slot := range p.weights.order {
			from, n := p.trained.(*masters).offsets[slot.Name], slot.Size()
			norm := 0.0
			for _, g := range grad[from : from+n] {
				norm += float64(g) * float64(g)
			}
			norm = math.Sqrt(norm)
			require.Greater(t, norm, 0.0, slot.Name)
			const step = 2e-3
			move := func(sign float64) []float32 {
				v := append([]float32(nil), start...)
				for i := from; i < from+n; i++ {
					v[i] += float32(sign * step * float64(grad[i]) / norm)
				}
				return v
			}
			slope := (loss(move(1)) - loss(move(-1))) / (2 * step)
			require.InEpsilon(t, norm, slope, 1e-2, "%s: %s", name, slot.Name)
		}
	}
}

// Misuse that would end as NaN gradients, or as weights that nobody set, is refused where it occurs.
func TestMisuseIsRefused(t *testing.T) {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 64})
	for _, temperature := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1)), 1e-45} {
		_, err := p.Accumulate(t.Context(), train.Datums, Objective{Temperature: temperature})
		require.ErrorContains(t, err, "temperature: found")
		_, err = p.Score(t.Context(), [][]int32{{1, 2}}, temperature)
		require.ErrorContains(t, err, "temperature: found")
	}
	before, err := p.Hash()
	require.NoError(t, err)
	a, err := p.Adapter()
	require.NoError(t, err)
	n := len(a.Values)
	a.Values = a.Values[:3]
	require.ErrorContains(t, p.Attach(a), fmt.Sprintf("the adapter has 3 numbers, but its layout has %d", n))
	after, err := p.Hash()
	require.NoError(t, err)
	require.Equal(t, before, after)
}
