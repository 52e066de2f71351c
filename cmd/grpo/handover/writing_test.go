package handover

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/lora"
	"github.com/seed-7879b91d/grpo/model"
)

// A model whose config.json does not say what it was published in, on which its embedding hangs, says so once its weights
// are in another type.
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

	_, err = writing{merged: from, dir: to, kind: "f16"}.write("safetensors")
	require.NoError(t, err)
	c, err := model.ReadConfig(to)
	require.NoError(t, err)
	require.Equal(t, "bfloat16", c.DType)
}

// A path without a letter or a digit that every machine has in names of files still gives a name.
func TestEverythingHasAName(t *testing.T) {
	for path, want := range map[string]string{
		"runs/x": "x", "a/my model/": "my-model", "runs/модель": "model", "/": "model", "x/--": "model",
	} {
		require.Equal(t, want, nameOf(path), path)
	}
}

// Who loses an adapter in the rounding is told of a type that rounds less, and of none that was asked for already.
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

// Tensors that no model reads, of whole numbers and of truth values, go along to the byte: what can be trained can be merged,
// exported and quantised.
func TestTensorsThatAreNoNumbersGoAlong(t *testing.T) {
	golden := filepath.Join("..", "..", "..", "model", "testdata", "golden", "qwen3-tied")
	dir, places := t.TempDir(), t.TempDir()
	config, err := os.ReadFile(filepath.Join(golden, "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	text, err := os.ReadFile(filepath.Join(golden, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), withMore(t, text), 0o644))

	at := func(name string) string { return filepath.Join(places, name) }
	_, err = typed(t, "export-model", "--model", dir, "--adapter", filepath.Join(golden, "adapter"), "--type", "f16", "--out", at("merged"))
	require.NoError(t, err)
	require.NoError(t, nf4.QuantiseModel(t.Context(), dir, at("codes"), true))
	require.NoError(t, nf4.DequantiseModel(t.Context(), at("codes"), at("numbers")))
	before, err := tensorfile.OpenModel(dir)
	require.NoError(t, err)
	defer before.Close()
	for _, name := range []string{"merged", "codes", "numbers"} {
		after, err := tensorfile.OpenModel(at(name))
		require.NoError(t, err)
		require.True(t, before.SameForeign("model.mask", after), name)
		require.True(t, before.SameForeign("model.position_ids", after), name)
		require.NoError(t, after.Close())
	}

	shape, err := model.ReadConfig(dir)
	require.NoError(t, err)
	adapter, err := lora.Load(filepath.Join(golden, "adapter"), shape.LoRADims())
	require.NoError(t, err)
	require.NoError(t, lora.Merge(dir, adapter, at("changed")))
	path := filepath.Join(at("changed"), "model.safetensors")
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o644))
	_, err = lora.CheckMerge(dir, adapter, at("changed"))
	require.ErrorContains(t, err, "model.mask: no adapter belongs to this tensor")
}

// withMore is a safetensors file with two more tensors.
func withMore(t *testing.T, text []byte) []byte {
	t.Helper()
	header, data := text[8:8+binary.LittleEndian.Uint64(text)], text[8+binary.LittleEndian.Uint64(text):]
	var tensors map[string]any
	require.NoError(t, json.Unmarshal(header, &tensors))
	n := len(data)
	tensors["model.position_ids"] = map[string]any{"dtype": "I64", "shape": []int{1, 2}, "data_offsets": []int{n, n + 16}}
	tensors["model.mask"] = map[string]any{"dtype": "BOOL", "shape": []int{3}, "data_offsets": []int{n + 16, n + 19}}
	header, err := json.Marshal(tensors)
	require.NoError(t, err)
	out := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	out = append(out, data...)
	return append(out, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1)
}

// A model that computes something else than its type explains is refused, and so is one that computes no number.
func TestAnotherModelIsNotKept(t *testing.T) {
	for kind, most := range limits {
		want := &probe{scores: [][]float32{{-1}}}
		_, err := compare(want, &probe{scores: [][]float32{{-1 - float32(most)*0.9}}}, kind)
		require.NoError(t, err, kind)
		for _, score := range []float32{-1 - float32(most)*1.1, float32(math.NaN())} {
			_, err = compare(want, &probe{scores: [][]float32{{score}}}, kind)
			require.ErrorContains(t, err, "what was written is not the policy", kind)
		}
	}
}
