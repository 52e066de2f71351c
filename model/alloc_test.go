package model

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/optim"
)

// trainingStep is a later step of a training: gradients, update, publication.
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

// countingBackend is a backend that counts the bytes of its live buffers, and their peak.
type countingBackend struct {
	kernels.Backend
	now, most int
	refuse    bool // the next allocation fails
}

func (l *countingBackend) Alloc(t kernels.DType, n int) (kernels.Buffer, error) {
	if l.refuse {
		return nil, errors.New("there is no room")
	}
	l.now += n * t.Size()
	l.most = max(l.most, l.now)
	return l.Backend.Alloc(t, n)
}

func (l *countingBackend) Release(b kernels.Buffer) {
	l.now -= b.Len() * b.DType().Size()
	l.Backend.Release(b)
}

// Memory that is too small for a sequence is freed before it is replaced. A policy that found no room for one can score others.
func TestWhatGrowsNeverLivesTwice(t *testing.T) {
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		l := &countingBackend{Backend: b}
		var p *Policy
		score := func(n int) ([][]float32, error) { return p.Score(t.Context(), [][]int32{make([]int32, n)}, 1) }
		open := func() {
			l.now, l.most = 0, 0
			p = openGolden(t, l, "qwen3-tied", "adapter", Options{MaxRows: 16})
		}
		open()
		_, err := score(61)
		require.NoError(t, err)
		atOnce := l.now
		open()
		want, err := score(10)
		require.NoError(t, err)
		require.Less(t, l.now, atOnce)
		_, err = score(61)
		require.NoError(t, err)
		require.Equal(t, atOnce, l.now)
		require.Equal(t, atOnce, l.most)

		l.refuse = true
		_, err = score(100)
		require.ErrorContains(t, err, "there is no room")
		l.refuse = false
		got, err := score(10)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func BenchmarkStep(b *testing.B) {
	step := trainingStep(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
