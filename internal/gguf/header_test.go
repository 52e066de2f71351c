package gguf

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/model"
)

// Headers with duplicates, or with wrong facts about tensors, are refused: they would be read as other numbers than intended.
func TestHeadersThatMisleadAreRefused(t *testing.T) {
	two := []Tensor{{Name: "t", Type: F32, Shape: []int{2, 3}}, {Name: "u", Type: F32, Shape: []int{3}}}
	same := func(b []byte) []byte { return b }
	for says, c := range map[string]struct {
		pairs   []Pair
		tensors []Tensor
		change  func(head []byte) []byte
	}{
		`key "a" is there twice`:              {[]Pair{{"a", uint32(1)}, {"a", uint32(2)}}, two, same},
		`tensor "t" is there twice`:           {nil, []Tensor{two[0], two[0]}, same},
		"general.alignment: found 64":         {[]Pair{{"general.alignment", uint32(64)}}, two, same},
		"found 5 dimensions, expected 1 to 4": {nil, []Tensor{{Name: "t", Type: F32, Shape: []int{1, 1, 1, 1, 2}}}, same},
		"offset 0, expected 32": {nil, two, func(b []byte) []byte { // of the second tensor: both would have the first one's numbers
			return binary.LittleEndian.AppendUint64(b[:len(b)-8], 0)
		}},
		"found a side of 4294967299": {nil, two, func(b []byte) []byte { // 3, but for a bit beyond the width of a side
			b[len(b)-8-4-4] = 1
			return b
		}},
		"found version 2":           {nil, two, func(b []byte) []byte { b[4] = 2; return b }},
		"a value of type 99":        {[]Pair{{"a", uint32(1)}}, nil, func(b []byte) []byte { b[24+9] = 99; return b }},
		"list of values of type 99": {[]Pair{{"a", []int32{1}}}, nil, func(b []byte) []byte { b[24+13] = 99; return b }},
	} {
		head, err := header(c.pairs, c.tensors)
		require.NoError(t, err)
		data := padded(c.change(head))
		for _, tensor := range c.tensors {
			size, _ := tensor.Type.size(tensor.Shape)
			data = append(data, make([]byte, room(size))...)
		}
		_, err = read(data)
		require.ErrorContains(t, err, says)
		require.True(t, badinput.Is(err))
	}
}

// Weights that are copied without conversion are checked, too.
func TestBytesThatAreNoNumbersAreRefused(t *testing.T) {
	from := tensorfile.Tensor{Name: "w", File: "f", Encoding: kernels.EncodedBF16, Shape: []int{1, 2}, Bytes: []byte{0x80, 0x3f, 0x80, 0x7f}}
	var out bytes.Buffer
	err := tensorChange{}.write(&out, from, BF16)
	require.ErrorContains(t, err, `"w"`)
	require.True(t, badinput.Is(err))
	from.Bytes[3] = 0x3f
	require.NoError(t, tensorChange{}.write(&out, from, BF16))
	require.Equal(t, from.Bytes, out.Bytes())

	// Nor is a number beyond the range of a 16-bit scale written as infinity.
	huge := tensorfile.Tensor{Name: "w", File: "f", Encoding: kernels.EncodedF32, Shape: []int{1, 32}, Bytes: make([]byte, 128)}
	binary.LittleEndian.PutUint32(huge.Bytes, math.Float32bits(1e9))
	for _, kind := range []Type{Q8, Q4} {
		err := tensorChange{}.write(io.Discard, huge, kind)
		require.ErrorContains(t, err, "element 0 is 1e+09, and would be written as +Inf")
		require.True(t, badinput.Is(err))
	}
}

// configOf is the shape of a model, read back from a file with its settings.
func configOf(t *testing.T, c model.Config, more ...Tensor) (model.Config, error) {
	t.Helper()
	return configWith(t, c, nil, more...)
}

// configWith is configOf with further pairs.
func configWith(t *testing.T, c model.Config, pairs []Pair, more ...Tensor) (model.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	zeros := func(w io.Writer) error { _, err := w.Write(make([]byte, 4*c.Vocab*c.Hidden)); return err }
	tensors := append([]Tensor{{embedding, F32, []int{c.Vocab, c.Hidden}, zeros}}, more...)
	require.NoError(t, Write(path, append(families[c.Architecture].settings(c, F32), pairs...), tensors))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	return f.Config()
}

// Readers of Gemma 2 assume three things: every other layer has the window, scores are divided by the square root of the head size, and
// in the model of 46 layers by that of hidden size / heads.
func TestWhatReadersKnowOfGemma2(t *testing.T) {
	config := func(settings map[string]any) model.Config {
		all := map[string]any{"query_pre_attn_scalar": 32}
		maps.Copy(all, settings)
		c, err := model.ReadConfig(changed(t, "gemma2-softcap", all))
		require.NoError(t, err)
		return c
	}
	every := []string{"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"}
	require.ErrorContains(t, gemma2.check(config(map[string]any{"layer_types": every})), "layer 1 differs from the others (layer_types)")

	largest := config(map[string]any{"num_hidden_layers": 46, "query_pre_attn_scalar": 24})
	require.NoError(t, gemma2.check(largest))
	got, err := configOf(t, largest)
	require.NoError(t, err)
	require.Equal(t, 24.0, got.QueryScalar)
	require.Equal(t, "bfloat16", got.DType)
	require.ErrorContains(t, gemma2.check(config(map[string]any{"num_hidden_layers": 46})), "query_pre_attn_scalar is 32 where 24 is meant")

	without := config(map[string]any{"sliding_window": nil})
	require.Zero(t, without.Window)
	require.NoError(t, gemma2.check(without))
	got, err = configOf(t, without)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Window, without.MaxPositions, "a window of 0 tokens differs from none")
}

// Frequency divisors that differ from those of the file's own scaling are refused: they belong to another model.
func TestOtherFrequenciesAreRefused(t *testing.T) {
	c, err := model.ReadConfig(filepath.Join(golden, "llama-rope-scaled"))
	require.NoError(t, err)
	c.TiedHead = true
	divisors := factors(c)
	other := append([]float32{2 * divisors[0]}, divisors[1:]...)
	tensor := func(kind Type, x []float32) Tensor {
		wide := make([]float64, len(x))
		for i := range x {
			wide[i] = float64(x[i])
		}
		b := make([]byte, len(x)*kinds[kind].bytes)
		tensorfile.Narrow(b, encodings[kind], wide)
		return Tensor{ropeFactor, kind, []int{len(x)}, func(w io.Writer) error { _, err := w.Write(b); return err }}
	}
	_, err = configOf(t, c, tensor(F32, divisors))
	require.NoError(t, err)
	for _, wrong := range [][]Tensor{nil, {tensor(F16, divisors)}, {tensor(F32, divisors[1:])}, {tensor(F32, other)}} {
		_, err = configOf(t, c, wrong...)
		require.ErrorContains(t, err, ropeFactor)
		require.True(t, badinput.Is(err))
	}
}

// A file may state that there is no scaling.
func TestAScalingOfNone(t *testing.T) {
	c, err := model.ReadConfig(filepath.Join(golden, "qwen3-tied"))
	require.NoError(t, err)
	got, err := configWith(t, c, []Pair{{"qwen3.rope.scaling.type", "none"}})
	require.NoError(t, err)
	require.Equal(t, c.Frequencies(), got.Frequencies())
}
