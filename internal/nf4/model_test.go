package nf4

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

func configOf(t *testing.T, dir string) (config map[string]any) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	return config
}

// Dequantising a model gives the reference's numbers, and changes nothing else.
func TestDequantiseModel(t *testing.T) {
	for _, name := range []string{"nf4-double", "nf4-single"} {
		dir, out := filepath.Join(golden, name), filepath.Join(t.TempDir(), "out")
		require.NoError(t, DequantiseModel(t.Context(), dir, out))
		before, after := open(t, dir), open(t, out)
		want := answers(t, dir)
		for _, name := range after.Names() {
			got, err := after.Tensor(name)
			require.NoError(t, err)
			if w, ok := want[name]; ok {
				require.Equal(t, w.Shape, got.Shape)
				require.Equal(t, w.BF16, sum(tensorfile.Float32s(got), kernels.EncodedBF16))
				delete(want, name)
				continue
			}
			same, err := before.Tensor(name)
			require.NoError(t, err)
			require.Equal(t, same.Bytes, got.Bytes)
		}
		require.Empty(t, want, "not written")
		require.NotContains(t, configOf(t, out), "quantization_config")
		require.FileExists(t, filepath.Join(out, "score.json"), "other files are copied with the weights")
	}
}

// Quantising a model gives each matrix of its layers what Quantise returns, with any number of concurrent runs; the rest is unchanged.
func TestQuantiseModel(t *testing.T) {
	for _, double := range []bool{false, true} {
		dir, out := filepath.Join(golden, "qwen3-untied-sharded"), filepath.Join(t.TempDir(), "out")
		require.NoError(t, QuantiseModel(t.Context(), dir, out, double))
		before, after := open(t, dir), open(t, out)
		for _, name := range before.Names() {
			b, err := before.Tensor(name)
			require.NoError(t, err)
			if !inLayer(name) || len(b.Shape) != 2 {
				a, err := after.Tensor(name)
				require.NoError(t, err)
				require.Equal(t, b.Bytes, a.Bytes)
				continue
			}
			got, ok, err := Read(after, name, b.Shape[0], b.Shape[1])
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, Quantise(tensorfile.Float32s(b), b.Shape[0], b.Shape[1], double).Matrix, *got)
		}
		require.Contains(t, configOf(t, out), "quantization_config")
		err := QuantiseModel(t.Context(), out, filepath.Join(t.TempDir(), "again"), false)
		require.ErrorContains(t, err, "in four bits already")
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, QuantiseModel(t.Context(), dir, out, false), "not empty")
	}
	err := DequantiseModel(t.Context(), filepath.Join(golden, "qwen3-tied"), filepath.Join(t.TempDir(), "x"))
	require.ErrorContains(t, err, "no codes of four bits")
}

// A matrix of one row, whose last weight has only half of a byte, is quantised and restored like others.
func TestAMatrixOfOneRow(t *testing.T) {
	const name, n = "model.layers.0.mlp.up_proj.weight", 65
	tensor := tensorfile.Tensor{Name: name, Encoding: kernels.EncodedBF16, Shape: []int{1, n}, Bytes: make([]byte, 2*n)}
	for i := range n {
		tensorfile.Narrow(tensor.Bytes[2*i:], tensor.Encoding, []float64{float64(i) - 7})
	}
	dir, codes, out := t.TempDir(), filepath.Join(t.TempDir(), "codes"), filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{}`), 0o644))
	require.NoError(t, tensorfile.WriteModel(dir, []tensorfile.Source{tensorfile.FromTensor(tensor)}, nil))
	require.NoError(t, QuantiseModel(t.Context(), dir, codes, true))
	require.NoError(t, DequantiseModel(t.Context(), codes, out))
	got, err := open(t, out).Tensor(name, 1, n)
	require.NoError(t, err)
	want := Quantise(tensorfile.Float32s(tensor), 1, n, true)
	require.Equal(t, want.Encode(), got.Bytes)
}

// A model that cannot be quantised, or dequantised, is refused with a reason.
func TestModelsThatCannotBeRewritten(t *testing.T) {
	const name = "model.layers.0.mlp.up_proj.weight"
	numbers := random(1, 2*64)
	codes := Quantise(numbers, 2, 64, false)
	state := func(shape string) []tensorfile.Source {
		parts := codes.Sources(name)
		i := slices.IndexFunc(parts, func(s tensorfile.Source) bool { return s.Name == name+stateName })
		text := `{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":` + shape + `}`
		parts[i] = tensorfile.FromBytes(parts[i].Name, []byte(text), len(text))
		return parts
	}
	quantise := func(ctx context.Context, dir, out string) error { return QuantiseModel(ctx, dir, out, true) }
	for _, c := range []struct {
		parts   []tensorfile.Source
		rewrite func(ctx context.Context, dir, out string) error
		says    string
	}{
		{[]tensorfile.Source{tensorfile.FromFloat32s(name, numbers, 2, 64)}, quantise, "only a model in bf16 is quantised: type grpo"},
		{[]tensorfile.Source{tensorfile.FromFloat32s("other", numbers, 2, 64)}, quantise, "no matrix of a layer"},
		{state("[128]"), DequantiseModel, "shape [128], expected that of a matrix"},
		{state("[-2,-64]"), DequantiseModel, "shape [-2 -64], expected that of a matrix"},
		{state("[2,-64]"), DequantiseModel, "shape [2 -64], expected that of a matrix"},
		{state("[0,64]"), DequantiseModel, "shape [0 64], expected that of a matrix"},
		{state("[2,64,1]"), DequantiseModel, "shape [2 64 1], expected that of a matrix"},
		{state("[4294967296,4294967296]"), DequantiseModel, "expected that of a matrix"},
	} {
		dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{}`), 0o644))
		require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), c.parts, nil))
		err := c.rewrite(t.Context(), dir, out)
		require.ErrorContains(t, err, c.says)
		require.True(t, badinput.Is(err), "%v", err)
		require.NoDirExists(t, out)
	}
}

// OnlyBF16 reports whether all quantised weights were bf16 before.
func TestWhatWasQuantised(t *testing.T) {
	for dtype, want := range map[string]bool{"bfloat16": true, "float16": false, "float32": false} {
		q := Quantise(random(1, 2*64), 2, 64, false)
		other := q.Sources("w.2.weight")
		i := slices.IndexFunc(other, func(s tensorfile.Source) bool { return s.Name == "w.2.weight"+stateName })
		text := `{"quant_type":"nf4","blocksize":64,"dtype":"` + dtype + `","shape":[2,64]}`
		other[i] = tensorfile.FromBytes(other[i].Name, []byte(text), len(text))
		dir := t.TempDir()
		require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), append(q.Sources("w.1.weight"), other...), nil))
		require.Equal(t, want, OnlyBF16(open(t, dir)), dtype)
	}
}

// A cancelled rewrite leaves no files.
func TestAStoppedRewriteLeavesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	out := filepath.Join(t.TempDir(), "out")
	require.ErrorIs(t, QuantiseModel(ctx, filepath.Join(golden, "qwen3-tied"), out, true), context.Canceled)
	require.ErrorIs(t, DequantiseModel(ctx, filepath.Join(golden, "nf4-double"), out), context.Canceled)
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Quantising a weight in several runs gives the same as in one.
func TestRunsMakeOneWeight(t *testing.T) {
	weights := random(3, 3*runLength+130)
	bytes := make([]byte, 2*len(weights))
	wide := make([]float64, len(weights))
	for i, w := range weights {
		wide[i] = float64(w)
	}
	tensorfile.Narrow(bytes, kernels.EncodedBF16, wide)
	tensor := tensorfile.Tensor{Name: "w", Encoding: kernels.EncodedBF16, Shape: []int{2, len(weights) / 2}, Bytes: bytes}
	dir := t.TempDir()
	released := 0
	require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), quantised(tensor, true, func() { released++ }), nil))
	got, _, err := Read(open(t, dir), "w", 2, len(weights)/2)
	require.NoError(t, err)
	require.Equal(t, Quantise(tensorfile.Float32s(tensor), 2, len(weights)/2, true).Matrix, *got)
	require.Equal(t, 1, released)
}

// A tensor that is not a weight, such as a list of positions, is copied.
func TestWhatIsNoWeightIsCarriedAlong(t *testing.T) {
	dir, codes, out := t.TempDir(), filepath.Join(t.TempDir(), "codes"), filepath.Join(t.TempDir(), "out")
	set := open(t, filepath.Join(golden, "qwen3-tied"))
	var all []tensorfile.Source
	for _, name := range set.Names() {
		w, err := set.Tensor(name)
		require.NoError(t, err)
		all = append(all, tensorfile.FromTensor(w))
	}
	others := []tensorfile.Other{
		{Name: "model.position_ids", DType: safetensors.I64, Shape: []int{1, 2}, Bytes: []byte("0123456789abcdef")},
		{Name: "model.layers.0.mask.weight", DType: safetensors.BOOL, Shape: []int{3}, Bytes: []byte{0, 1, 1}},
		{Name: "model.bytes", DType: safetensors.U8, Shape: []int{2}, Bytes: []byte{7, 8}},
	}
	for _, o := range others {
		all = append(all, tensorfile.FromOther(o))
	}
	require.NoError(t, tensorfile.WriteModel(dir, all, nil))
	config, err := os.ReadFile(filepath.Join(golden, "qwen3-tied", "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	require.NoError(t, QuantiseModel(t.Context(), dir, codes, true))
	require.NoError(t, DequantiseModel(t.Context(), codes, out))
	for _, dir := range []string{dir, codes, out} {
		set := open(t, dir)
		for _, want := range others {
			got, ok := set.Other(want.Name)
			require.True(t, ok, want.Name)
			require.Equal(t, want, got)
		}
		_, weight := set.Other("model.norm.weight")
		_, missing := set.Other("none")
		require.False(t, weight || missing)
	}
}
