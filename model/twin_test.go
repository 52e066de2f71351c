package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
	"github.com/seed-7879b91d/grpo/lora"
)

// Policies that share weights are trained by turns, and each gets the results that it has alone: hashes, gradients and scores, to the
// bit.
func TestTwinsDoNotMoveEachOther(t *testing.T) {
	for _, b := range []kernels.Backend{backendtest.CPU(t, cpu.Options{}), deferred.New(backendtest.CPU(t, cpu.Options{}))} {
		first := openGolden(t, b, "qwen3-tied", "train_init", Options{})
		second, err := first.Twin()
		require.NoError(t, err)
		attach := func(p *Policy) {
			wide, err := lora.NewLayout(lora.Config{Rank: 3, Alpha: 7, Targets: []lora.Target{lora.V, lora.Down}}, p.LoRADims())
			require.NoError(t, err)
			a := lora.New(wide)
			a.Init(5)
			require.NoError(t, p.Attach(a))
		}
		attach(second)
		alone := [2]*Policy{openGolden(t, b, "qwen3-tied", "train_init", Options{}), openGolden(t, b, "qwen3-tied", "", Options{})}
		attach(alone[1])

		sequence := [][]int32{{5, 9, 11, 3, 2, 40}}
		for _, turn := range []int{0, 1, 1, 0} {
			twins := [2]*Policy{first, second}
			takeStep(t, b, twins[turn])
			takeStep(t, b, alone[turn])
			for i, p := range twins {
				require.Equal(t, values(t, alone[i].Adapter), values(t, p.Adapter))
				require.Equal(t, values(t, alone[i].Gradients), values(t, p.Gradients))
				want, err := alone[i].Score(t.Context(), sequence, 0.7)
				require.NoError(t, err)
				got, err := p.Score(t.Context(), sequence, 0.7)
				require.NoError(t, err)
				require.Equal(t, want, got, "policy %d after it was the turn of %d", i, turn)
			}
		}
		require.NoError(t, b.Close())
	}
}

func values(t *testing.T, of func() (*lora.Adapter, error)) []float32 {
	t.Helper()
	a, err := of()
	require.NoError(t, err)
	return a.Values
}

// A twin needs memory only for its own adapter and gradients, not for weights.
func TestTwinsShareTheirWeights(t *testing.T) {
	l := kernels.NewLedger(backendtest.CPU(t, cpu.Options{}))
	p, err := Random(l, "tiny", Options{})
	require.NoError(t, err)
	weights, _ := l.Take()
	require.GreaterOrEqual(t, weights, p.WeightBytes())
	twin, err := p.Twin()
	require.NoError(t, err)
	bytes, host := l.Take()
	require.Zero(t, bytes+host)
	require.Zero(t, twin.TrainableCount())
	require.Equal(t, p.WeightBytes(), twin.WeightBytes())
}

// Scoring with the base, without the adapter, uses the existing program, and no more memory.
func TestTheBaseIsScoredInPlace(t *testing.T) {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		within := &countingBackend{Backend: b}
		p := openGolden(t, within, "qwen3-tied", "adapter", Options{MaxRows: 64})
		score := func(p *Policy, f func(*Policy) ([][]float32, error)) [][]float32 {
			scores, err := f(p)
			require.NoError(t, err)
			return scores
		}
		adapted := func(p *Policy) ([][]float32, error) { return p.ScoreTargets(t.Context(), train.Datums, 0.7) }
		base := func(p *Policy) ([][]float32, error) { return p.ScoreBase(t.Context(), train.Datums, 0.7) }
		want, before := score(p, adapted), within.now
		passes := 0
		p.Progress = func(int, int) { passes++ }
		got := score(p, base)
		once := passes
		require.Equal(t, want, score(p, adapted), "the adapter is still attached")
		require.Equal(t, 2*once, passes)
		require.Equal(t, before, within.now, "scoring leaves no buffers behind")
		for i, all := range score(openGolden(t, b, "qwen3-tied", "", Options{}), adapted) {
			for k, counts := range train.Datums[i].Mask {
				if !counts {
					all[k] = 0
				}
			}
			require.Equal(t, all, got[i])
		}
		require.NotEqual(t, want, got)
	})
}

func TestAWholeModelHasNoTwin(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	p, err := Open(b, goldenDir("qwen3-tied"), true, Options{})
	require.NoError(t, err)
	_, err = p.Twin()
	require.True(t, badinput.Is(err), "%v", err)
	_, err = p.ScoreBase(t.Context(), nil, 1)
	require.True(t, badinput.Is(err), "nor what it was before: %v", err)
}
