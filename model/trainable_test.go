package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
)

// A policy that trains nothing, or has no adapter, refuses calls that need it.
func TestWhatIsNotTrainedIsRefused(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	dir := t.TempDir()
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")

	frozen := openGolden(t, b, "qwen3-tied", "", Options{})
	params, grads, _ := frozen.Slabs()
	require.Nil(t, params)
	require.Nil(t, grads)
	require.Zero(t, frozen.TrainableCount())
	frozen.Publish()
	_, err := frozen.Hash()
	require.EqualError(t, err, "model: frozen weights have no name; attach an adapter, or train them")
	_, accumulate := frozen.Accumulate(t.Context(), train.Datums, importanceSampling)
	_, _, prepare := frozen.Prepare(10)
	for _, err := range []error{
		accumulate, prepare, frozen.Save(dir, goldenDir("qwen3-tied")), frozen.Restore(dir), frozen.SaveGradients(dir + "/g"),
	} {
		require.EqualError(t, err, "nothing to train: attach an adapter, or open the model with train=full and without Frozen")
		require.True(t, badinput.Is(err))
	}
	require.EqualError(t, frozen.SaveModel(dir), "model: only a model with train=full has weights to save")

	whole, err := Open(b, goldenDir("qwen3-tied"), true, Options{})
	require.NoError(t, err)
	for _, p := range []*Policy{frozen, whole} {
		_, err := p.Adapter()
		require.EqualError(t, err, "model: no adapter is attached")
		_, err = p.Gradients()
		require.EqualError(t, err, "model: no adapter is attached")
	}
	adapter, err := openGolden(t, b, "qwen3-tied", "adapter", Options{}).Adapter()
	require.NoError(t, err)
	require.EqualError(t, whole.Attach(adapter), "an adapter cannot be attached to a model with train=full")
}

// An adapter, or a fully trained model, that is opened only for inference has the same scores and no memory for gradients, which are
// refused.
func TestWhatIsFrozenHasNoGradients(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	open := func(whole, frozen bool) (p *Policy, taken int) {
		o := Options{Frozen: frozen}
		if !whole {
			p = openGolden(t, b, "qwen3-tied", "adapter", o)
		} else {
			var err error
			p, err = Open(b, goldenDir("qwen3-tied"), true, o)
			require.NoError(t, err)
		}
		l := kernels.NewLedger(b)
		sketched, err := Sketch(l, goldenDir("qwen3-tied"), whole, o)
		require.NoError(t, err)
		if a, ok := p.trained.(*adapter); ok {
			require.NoError(t, sketched.Attach(&lora.Adapter{Layout: a.Layout}))
		}
		taken, _ = l.Take()
		return p, taken
	}
	for _, whole := range []bool{false, true} {
		learns, more := open(whole, false)
		asked, less := open(whole, true)
		params, grads, _ := asked.Slabs()
		require.Nil(t, grads)
		require.Equal(t, kernels.F32.Size()*params.Len(), more-less, "the difference is the size of the gradients")
		sequences := [][]int32{{1, 2, 3, 4}}
		want, err := learns.Score(t.Context(), sequences, 1)
		require.NoError(t, err)
		got, err := asked.Score(t.Context(), sequences, 1)
		require.NoError(t, err)
		require.Equal(t, want, got)
		_, accumulate := asked.Accumulate(t.Context(), train.Datums, importanceSampling)
		_, _, prepare := asked.Prepare(10)
		for _, err := range []error{accumulate, prepare, asked.SaveGradients(t.TempDir() + "/g")} {
			require.ErrorContains(t, err, "nothing to train")
		}
		_, err = asked.Gradients()
		require.Error(t, err)
		require.NoError(t, asked.Save(t.TempDir(), goldenDir("qwen3-tied")))
	}
}

// Norms, biases and the embedding are exempt from weight decay.
func TestNormsAndTheEmbeddingAreSpared(t *testing.T) {
	race.SkipSerial(t)
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	for _, name := range []string{"qwen3-tied", "qwen3-untied-sharded"} {
		p, err := Open(b, goldenDir(name), true, Options{})
		require.NoError(t, err)
		params, _, locate := p.Slabs()
		ranges, spared := p.Spared(), 0
		for at := range params.Len() {
			tensor := locate(at)
			if tensor == "padding" {
				continue
			}
			in := slices.ContainsFunc(ranges, func(r [2]int) bool { return at >= r[0] && at < r[1] })
			require.Equal(t, strings.Contains(tensor, "norm") || strings.Contains(tensor, "embed") || strings.HasSuffix(tensor, ".bias"), in, tensor)
			if in {
				spared++
			}
		}
		require.NotZero(t, spared)
	}
	require.Empty(t, openGolden(t, b, "qwen3-tied", "adapter", Options{}).Spared())
}
