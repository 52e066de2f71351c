package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/optim"
)

// The kernel's losses, written as custom losses.

func ownImportanceSampling(s *LossSequence) (loss float64) {
	for i := range s.LogP {
		term := float64(s.Weight[i]) * math.Exp(float64(s.LogP[i])-float64(s.Old[i])) * float64(s.Advantage[i])
		loss -= term
		s.Grad[i] = float32(-term)
	}
	return loss
}

func ownCrossEntropy(s *LossSequence) (loss float64) {
	for i := range s.LogP {
		w := float64(s.Weight[i]) * float64(s.Advantage[i])
		loss -= w * float64(s.LogP[i])
		s.Grad[i] = float32(-w)
	}
	return loss
}

// ownSequenceRatio has one importance ratio for the whole sequence.
func ownSequenceRatio(s *LossSequence) (loss float64) {
	n, sum := float64(len(s.LogP)), 0.0
	for i := range s.LogP {
		sum += float64(s.LogP[i]) - float64(s.Old[i])
	}
	ratio := math.Exp(sum / n)
	for i := range s.Grad {
		s.Grad[i] = float32(-float64(s.Weight[i]) * ratio * float64(s.Advantage[i]))
		loss += float64(s.Grad[i])
	}
	return loss
}

// accumulated are the gradients and the statistics of an objective over the golden datums, in batches of several sequences.
func accumulated(t *testing.T, b kernels.Backend, r Recompute, datums []Datum, o Objective) ([]float32, Stats) {
	t.Helper()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{Recompute: r, MaxRows: 64})
	stats, err := p.Accumulate(t.Context(), datums, o)
	require.NoError(t, err)
	grads, err := p.Gradients()
	require.NoError(t, err)
	return grads.Values, stats
}

func TestACustomLossEqualsTheKernels(t *testing.T) {
	race.SkipSerial(t)
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		for _, c := range []struct {
			kind      kernels.LossKind
			custom    LossFunc
			recompute Recompute
			reduction Reduction
		}{
			{kernels.ImportanceSampling, ownImportanceSampling, RecomputeCheap, Sum},
			{kernels.ImportanceSampling, ownImportanceSampling, RecomputeBlocks, SequenceMean},
			{kernels.CrossEntropy, ownCrossEntropy, RecomputeBlocks, TokenMean},
			{kernels.CrossEntropy, ownCrossEntropy, RecomputeCheap, SequenceSum},
		} {
			o := Objective{Loss: kernels.Loss{Kind: c.kind}, Reduction: c.reduction, Temperature: 0.8}
			want, wantStats := accumulated(t, b, c.recompute, train.Datums, o)
			o.Custom = c.custom
			got, stats := accumulated(t, b, c.recompute, train.Datums, o)
			require.Less(t, distance(got, want), 1e-6, "%v %v", c.kind, c.reduction)
			require.InEpsilon(t, wantStats.Loss, stats.Loss, 1e-6, "%v %v", c.kind, c.reduction)
			stats.Loss, stats.sums[kernels.StatLoss] = wantStats.Loss, wantStats.sums[kernels.StatLoss]
			require.Equal(t, wantStats, stats)
		}
	})
}

// onPolicy sets the datums' log-probabilities to the model's own.
func onPolicy(t *testing.T, p *Policy, datums []Datum) {
	t.Helper()
	for i, d := range datums {
		sequence := append(append([]int32(nil), d.Tokens...), d.Targets[len(d.Targets)-1])
		scores, err := p.Score(t.Context(), [][]int32{sequence}, 1)
		require.NoError(t, err)
		datums[i].OldLogProbs = scores[0]
	}
}

// If sampler and trainer agree, all ratios are one, and a sequence ratio has the gradient of token ratios.
func TestALossOfWholeSequences(t *testing.T) {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		onPolicy(t, openGolden(t, b, "qwen3-tied", "train_init", Options{}), train.Datums)
		o := Objective{Reduction: SequenceMean, Temperature: 1}
		want, _ := accumulated(t, b, RecomputeBlocks, train.Datums, o)
		o.Custom = ownSequenceRatio
		got, _ := accumulated(t, b, RecomputeBlocks, train.Datums, o)
		require.Less(t, distance(got, want), 1e-6)
	})
}

// A custom loss gets every sequence once and whole, with the trained rows and the log-probabilities of a score, but no sequence without
// trained rows.
func TestACustomLossSeesEverySequence(t *testing.T) {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 64})
	scored := append([]Datum(nil), train.Datums...)
	onPolicy(t, p, scored)
	mute := scored[0]
	mute.Mask = make([]bool, mute.Rows())
	train.Datums, scored = append(train.Datums, mute), append(scored, mute)

	var seen []int
	entropy := 0.0
	show := func(s *LossSequence) float64 {
		d := train.Datums[s.Index]
		seen = append(seen, s.Index)
		k := 0
		for i, counts := range d.Mask {
			if counts {
				require.Equal(t, scored[s.Index].OldLogProbs[i], s.LogP[k])
				require.Equal(t, []float32{d.OldLogProbs[i], d.Advantages[i], 0}, []float32{s.Old[k], s.Advantage[k], s.Grad[k]})
				k++
			}
		}
		for _, h := range s.Entropy {
			entropy += float64(h)
		}
		for _, n := range []int{len(s.LogP), len(s.Old), len(s.Entropy), len(s.Advantage), len(s.Weight), len(s.Grad)} {
			require.Equal(t, k, n)
		}
		s.Grad[0] = float32(math.NaN())
		return 0
	}
	stats, err := p.Accumulate(t.Context(), train.Datums, Objective{Reduction: TokenMean, Temperature: 1, Custom: show})
	require.NoError(t, err)
	require.InEpsilon(t, stats.Entropy*float64(stats.Rows), entropy, 1e-9)
	want := make([]int, len(scored)-1)
	for i := range want {
		want[i] = i
	}
	require.ElementsMatch(t, want, seen)

	// A NaN gradient is located as usual.
	params, grads, locate := p.Slabs()
	adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	require.NoError(t, err)
	_, err = adam.Step(1e-3)
	var nonFinite *optim.NonFiniteError
	require.ErrorAs(t, err, &nonFinite)
}

func TestACustomLossGivesAllDerivatives(t *testing.T) {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 64})
	for want, f := range map[string]LossFunc{
		"left 0 derivatives in Grad": func(s *LossSequence) float64 { s.Grad = nil; return 0 },
		"one for each LogP":          func(s *LossSequence) float64 { s.Grad = append(s.Grad, 1); return 0 },
	} {
		_, err := p.Accumulate(t.Context(), train.Datums, Objective{Temperature: 1, Custom: f})
		require.ErrorContains(t, err, want)
	}
}

// An invalid reduction is refused, since its sum would be mistaken for another. The zero value is Sum.
func TestAReductionThatIsNoneIsRefused(t *testing.T) {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 64})
	o := importanceSampling
	o.Reduction = "mean"
	_, err := p.Accumulate(t.Context(), train.Datums, o)
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, `reduction "mean" is not known; expected one of ["sum" "token_mean"`)
	o.Reduction = ""
	_, err = p.Accumulate(t.Context(), train.Datums, o)
	require.NoError(t, err)
}
