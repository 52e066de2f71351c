package model

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/optim"
)

// takeStep makes a step on the golden datums.
func takeStep(t *testing.T, b kernels.Backend, p *Policy) {
	t.Helper()
	var train goldenTrain
	readJSON(t, &train, "qwen3-tied", "train.json")
	params, grads, locate := p.Slabs()
	adam, err := optim.NewAdam(b, params, grads, optim.Defaults(), locate)
	require.NoError(t, err)
	adam.ZeroGrad()
	_, err = p.Accumulate(t.Context(), train.Datums, importanceSampling)
	require.NoError(t, err)
	_, err = adam.Step(1e-3)
	require.NoError(t, err)
	p.Publish()
}

// A trained policy that is saved, and restored into one that was trained differently, is the same to the bit.
func TestRestoreGivesBackWhatSaveWrote(t *testing.T) {
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		base := goldenDir("qwen3-tied")
		for name, open := range map[string]func() *Policy{
			"adapter": func() *Policy { return openGolden(t, b, "qwen3-tied", "train_init", Options{}) },
			"whole model": func() *Policy {
				p, err := Open(b, base, true, Options{})
				require.NoError(t, err)
				require.Equal(t, p.WeightCount(), p.TrainableCount())
				return p
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := open()
				start, err := p.Hash()
				require.NoError(t, err)
				takeStep(t, b, p)
				want, err := p.Hash()
				require.NoError(t, err)
				require.NotEqual(t, start, want)
				sequence := [][]int32{{5, 9, 11, 3, 2, 40}}
				scores, err := p.Score(t.Context(), sequence, 1)
				require.NoError(t, err)
				dir := filepath.Join(t.TempDir(), "saved")
				require.NoError(t, p.Save(dir, base))

				takeStep(t, b, p)
				require.NoError(t, p.Restore(dir))
				got, err := p.Hash()
				require.NoError(t, err)
				require.Equal(t, want, got)
				again, err := p.Score(t.Context(), sequence, 1)
				require.NoError(t, err)
				require.Equal(t, scores, again)
			})
		}
	})
}

func TestAnAdapterOfAnotherShapeIsNotRestored(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p := openGolden(t, b, "qwen3-tied", "train_init", Options{})
	own, err := p.Adapter()
	require.NoError(t, err)
	scaled := own.Config
	scaled.Alpha *= 2
	c := lora.Defaults()
	c.Rank = 3
	for words, c := range map[string]lora.Config{"{Rank:3 Alpha:32": c, fmt.Sprintf("Alpha:%v", scaled.Alpha): scaled} {
		dir := t.TempDir()
		require.NoError(t, newLoRA(t, p, c).Save(dir, "base"))
		err = p.Restore(dir)
		require.ErrorContains(t, err, "must have the rank, scale and targets of the one in use, found ")
		require.ErrorContains(t, err, words)
	}
}

func newLoRA(t *testing.T, p *Policy, c lora.Config) *lora.Adapter {
	layout, err := lora.NewLayout(c, p.LoRADims())
	require.NoError(t, err)
	a := lora.New(layout)
	a.Init(1)
	return a
}

// An attached adapter replaces the one before, even after sequences were scored with that.
func TestAnAdapterTakesThePlaceOfAnother(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p, q := openGolden(t, b, "qwen3-tied", "train_init", Options{}), openGolden(t, b, "qwen3-tied", "train_init", Options{})
	other := newLoRA(t, p, lora.Defaults())
	for i := range other.Values {
		other.Values[i] = float32(i%7) / 70
	}
	score := func(p *Policy) [][]float32 {
		all, err := p.Score(t.Context(), [][]int32{{5, 9, 11, 3, 2, 40}}, 1)
		require.NoError(t, err)
		return all
	}
	before := score(p)
	require.NoError(t, q.Attach(other))
	require.NoError(t, p.Attach(other))
	require.Equal(t, score(q), score(p))
	require.NotEqual(t, before, score(p))
}

// An update of the weights that was not published is detected in full training, too.
func TestUnpublishedWeightsAreFound(t *testing.T) {
	backendtest.OnAll(t, func(t *testing.T, b kernels.Backend) {
		p, err := Open(b, goldenDir("qwen3-tied"), true, Options{})
		require.NoError(t, err)
		m := p.trained.(*masters)
		b.Upload(m.master(m.slots[p.HeadSlot()]), []float32{7})
		_, err = p.Hash()
		require.ErrorContains(t, err, "was changed but not published")
		p.Publish()
		_, err = p.Hash()
		require.NoError(t, err)
	})
}
