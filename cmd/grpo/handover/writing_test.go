package handover

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// If config.json does not name the type of the published weights, on which the scale of the embedding depends, it is added when weights
// are written in another type.
func TestAModelStaysAsPublished(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	golden := filepath.Join("..", "..", "..", "model", "testdata", "golden", "gemma2-softcap")
	weights, err := os.ReadFile(filepath.Join(golden, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(from, "model.safetensors"), weights, 0o644))
	text, err := os.ReadFile(filepath.Join(golden, "config.json"))
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(text, &keys))
	delete(keys, "torch_dtype")
	delete(keys, "dtype")
	text, err = json.Marshal(keys)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(from, "config.json"), text, 0o644))

	_, err = modelWriting{merged: from, dir: to, kind: "f16"}.write(t.Context(), "safetensors")
	require.NoError(t, err)
	c, err := model.ReadConfig(to)
	require.NoError(t, err)
	require.Equal(t, "bfloat16", c.DType)
}

// An interrupt does not wait for a model to be written, in either format.
func TestWritingStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, format := range []string{formatSafetensors, formatGGUF} {
		dir := t.TempDir()
		golden := filepath.Join("..", "..", "..", "model", "testdata", "golden", "qwen3-tied")
		_, err := modelWriting{source: &source{name: "x"}, merged: golden, dir: dir, kind: "f16"}.write(ctx, format)
		require.ErrorIs(t, err, context.Canceled)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A tensor that is not a weight is copied unchanged.
func TestWhatIsNoWeightIsWrittenAsItIs(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	golden := filepath.Join("..", "..", "..", "model", "testdata", "golden", "qwen3-tied")
	set, err := tensorfile.OpenModel(golden)
	require.NoError(t, err)
	defer set.Close()
	positions := tensorfile.Other{Name: "model.position_ids", DType: safetensors.I64, Shape: []int{2}, Bytes: []byte("0123456789abcdef")}
	const frequencies = "model.layers.0.self_attn.rotary_emb.inv_freq"
	all := []tensorfile.Source{tensorfile.FromOther(positions), tensorfile.FromFloat32s(frequencies, []float32{1, 0.1, 0.01, 0.001}, 4)}
	for _, name := range set.Names() {
		w, err := set.Tensor(name)
		require.NoError(t, err)
		all = append(all, tensorfile.FromTensor(w))
	}
	require.NoError(t, tensorfile.WriteModel(from, all, nil))
	config, err := os.ReadFile(filepath.Join(golden, "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(from, "config.json"), config, 0o644))
	_, err = modelWriting{merged: from, dir: to, kind: "f16"}.write(t.Context(), formatSafetensors)
	require.NoError(t, err)
	written, err := tensorfile.OpenModel(to)
	require.NoError(t, err)
	defer written.Close()
	got, ok := written.Other(positions.Name)
	require.True(t, ok)
	require.Equal(t, positions, got)
	kept, err := written.Tensor(frequencies, 4)
	require.NoError(t, err)
	require.Equal(t, kernels.EncodedF32, kept.Encoding)
	require.Equal(t, []float32{1, 0.1, 0.01, 0.001}, tensorfile.Float32s(kept))
	weight, err := written.Tensor("model.norm.weight")
	require.NoError(t, err)
	require.Equal(t, kernels.EncodedF16, weight.Encoding)
}

// A path without any portable letter or digit still gives a name.
func TestEverythingHasAName(t *testing.T) {
	for path, want := range map[string]string{
		"runs/x": "x", "a/my model/": "my-model", "runs/модель": "model", "/": "model", "x/--": "model",
	} {
		require.Equal(t, want, nameOf(path), path)
	}
}

// If rounding removes an adapter, the message names a type that rounds less, but not one that was requested already.
func TestASmallAdapterIsToldOfAnotherType(t *testing.T) {
	for kind, says := range map[string]string{
		"q4_0": "type --type q8_0 or bf16", "q8_0": "type --type bf16", "bf16": "with grpo package", "f32": "with grpo package",
	} {
		want, got := &probe{scores: [][]float32{{-1}}, moved: 0.01}, &probe{scores: [][]float32{{-1.01}}}
		lines, err := compare(want, got, kind)
		require.NoError(t, err)
		require.Contains(t, lines[len(lines)-1], says, kind)
		require.NotContains(t, lines[len(lines)-1], "--type "+kind)
	}
}

// A written model that computes something else than its type explains is removed, and so is one that computes NaN.
func TestAnotherModelIsNotKept(t *testing.T) {
	for kind, most := range limits {
		want := &probe{scores: [][]float32{{-1}}}
		_, err := compare(want, &probe{scores: [][]float32{{-1 - float32(most)*0.9}}}, kind)
		require.NoError(t, err, kind)
		for _, score := range []float32{-1 - float32(most)*1.1, float32(math.NaN())} {
			_, err = compare(want, &probe{scores: [][]float32{{score}}}, kind)
			require.ErrorContains(t, err, "the written model is not the policy", kind)
		}
	}
}
