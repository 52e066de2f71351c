package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/optim"
)

// trainingStep is one step of a training after the first: gradients, update, publication.
func trainingStep(t testing.TB) func() {
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	t.Cleanup(func() { b.Close() })
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{MaxRows: 48})
	params, grads, locate := p.Slabs()
	adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	require.NoError(t, err)
	ctx := t.Context()
	step := func() {
		adam.ZeroGrad()
		if _, err := p.Accumulate(ctx, train.Datums, importanceSampling); err != nil {
			t.Fatal(err)
		}
		if _, err := adam.Step(1e-5); err != nil {
			t.Fatal(err)
		}
		p.Publish()
	}
	step()
	return step
}

func TestAStepAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(20, trainingStep(t)))
}

func BenchmarkStep(b *testing.B) {
	step := trainingStep(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
