package model

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/nf4"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// A model that is quantised while it is read equals the one that QuantiseModel writes, to the bit, in as much memory, which the plan
// knows.
func TestAModelQuantisedWhileItIsReadIsTheOneThatIsWritten(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 2})
	defer b.Close()
	for _, name := range append(slices.Clone(familyCases), "nf4-single") { // which stays as it is
		dir := goldenDir(name)
		if name != "nf4-single" {
			dir = filepath.Join(t.TempDir(), "written")
			require.NoError(t, nf4.QuantiseModel(t.Context(), goldenDir(name), dir, true))
		}
		o := Options{Precision: BF16, Quantise: NF4}
		sequences := [][]int32{{1, 2, 3, 80, 95, 0, 17, 5, 5, 80, 81, 82}}
		var scores [2][][]float32
		var bytes [2]int
		for i, from := range []string{goldenDir(name), dir} {
			p, err := Open(b, from, false, Options{Precision: BF16, Quantise: Quantisation(1 - i)})
			require.NoError(t, err)
			scores[i], err = p.Score(t.Context(), sequences, 1)
			require.NoError(t, err)
			bytes[i] = p.WeightBytes()
		}
		require.Equal(t, scores[1], scores[0], name)
		require.Equal(t, bytes[1], bytes[0], name)
		planned, err := Sketch(kernels.NewLedger(b), goldenDir(name), false, o)
		require.NoError(t, err)
		require.InEpsilon(t, bytes[0], planned.WeightBytes(), 0.02, name)
	}
}

// What cannot be quantised is refused, by the plan and when it is read.
func TestWhatIsNotQuantised(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	wide := t.TempDir() // an f32 model
	whole, err := Open(b, goldenDir("qwen3-tied"), true, Options{})
	require.NoError(t, err)
	require.NoError(t, whole.Save(wide, goldenDir("qwen3-tied")))
	for message, c := range map[string]struct {
		dir       string
		trainable bool
	}{
		"only a model in bf16 is quantised":                {wide, false},
		"quantize: weights in four bits cannot be trained": {goldenDir("qwen3-tied"), true},
	} {
		for _, open := range []func() (*Policy, error){
			func() (*Policy, error) { return Open(b, c.dir, c.trainable, Options{Quantise: NF4}) },
			func() (*Policy, error) {
				return Sketch(kernels.NewLedger(b), c.dir, c.trainable, Options{Quantise: NF4})
			},
		} {
			_, err := open()
			require.ErrorContains(t, err, message)
			require.True(t, badinput.Is(err))
		}
	}
	_, err = ParseQuantisation("int8")
	require.ErrorContains(t, err, `found "int8", expected none or nf4`)
}

// Integer products need 4-bit weights, and a backend that has them; the plan refuses it, too.
func TestWholeNumbersAreForFourBits(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	r := kerneltest.NewReference()
	defer r.Close()
	for message, c := range map[string]struct {
		b         kernels.Backend
		dir       string
		trainable bool
	}{
		"precision int16 is for weights of four bits, and the model has none": {b, "qwen3-tied", false},
		"precision int16 is for the processor, and this is reference":         {r, "nf4-double", false},
		"precision int16 is for frozen weights":                               {b, "qwen3-tied", true},
	} {
		_, err := Open(c.b, goldenDir(c.dir), c.trainable, Options{Precision: I16})
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
		if !c.trainable {
			_, err = Sketch(kernels.NewLedger(c.b), goldenDir(c.dir), false, Options{Precision: I16})
			require.ErrorContains(t, err, message)
		}
	}
	for _, name := range append(slices.Clone(familyCases), "nf4-single") {
		p, err := Open(b, goldenDir(name), false, Options{Precision: I16, Quantise: NF4})
		require.NoError(t, err)
		_, err = p.Score(t.Context(), [][]int32{{1, 2, 3}}, 1)
		require.NoError(t, err)
	}
	_, err := ParseCache("int16")
	require.ErrorContains(t, err, `found "int16", expected auto, f32 or bf16`)
}

// Random 4-bit weights are those of the same shape in bf16, quantised, in the memory of codes and scales.
func TestRandomWeightsInFourBits(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 2})
	defer b.Close()
	p, err := Random(b, "tiny/1", Options{Quantise: NF4})
	require.NoError(t, err)
	bytes, count := p.LayerWeights()
	require.InDelta(t, 0.5625, float64(bytes)/float64(count), 0.01)
	planned, err := Random(kernels.NewLedger(b), "tiny/1", Options{Quantise: NF4})
	require.NoError(t, err)
	require.InEpsilon(t, p.WeightBytes(), planned.WeightBytes(), 0.02)
	_, err = p.Score(t.Context(), [][]int32{{1, 2, 3}}, 1)
	require.NoError(t, err)
}

// 4-bit weights that were f16 or f32 before are decoded without rounding to bf16: the model equals one with the decoded weights.
func TestFourBitsOfOtherTypes(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{})
	defer b.Close()
	const state = ".quant_state.bitsandbytes__nf4"
	set, err := tensorfile.OpenModel(goldenDir("nf4-single"))
	require.NoError(t, err)
	defer set.Close()
	for _, of := range []string{"float16", "float32"} {
		var sources []tensorfile.Source
		for _, name := range set.Names() {
			if tensor, err := set.Tensor(name); err == nil {
				sources = append(sources, tensorfile.FromTensor(tensor))
				continue
			}
			text, shape, err := set.Bytes(name)
			require.NoError(t, err)
			if strings.HasSuffix(name, state) {
				text = bytes.Replace(text, []byte("bfloat16"), []byte(of), 1)
				shape = []int{len(text)}
			}
			sources = append(sources, tensorfile.FromBytes(name, text, shape...))
		}
		codes, numbers := t.TempDir(), filepath.Join(t.TempDir(), "numbers")
		require.NoError(t, tensorfile.Write(filepath.Join(codes, tensorfile.SingleName), sources, nil))
		config, err := os.ReadFile(filepath.Join(goldenDir("nf4-single"), "config.json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(codes, "config.json"), config, 0o644))
		require.NoError(t, nf4.DequantiseModel(t.Context(), codes, numbers))
		for _, precision := range []Precision{F32, BF16} {
			var scores [2][][]float32
			for i, dir := range []string{codes, numbers} {
				p, err := Open(b, dir, false, Options{Precision: precision})
				require.NoError(t, err)
				scores[i], err = p.Score(t.Context(), [][]int32{{1, 2, 3, 80, 95, 0, 17, 5, 5, 80, 81, 82}}, 1)
				require.NoError(t, err)
			}
			require.Equal(t, scores[1], scores[0], "%s, %v", of, precision)
		}
	}
}
