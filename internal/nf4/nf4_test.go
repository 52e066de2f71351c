package nf4

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels"
)

const golden = "../../model/testdata/golden"

func open(t *testing.T, dir string) *tensorfile.Set {
	set, err := tensorfile.OpenModel(dir)
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	return set
}

// answer is the expected result for a weight.
type answer struct {
	Shape  []int  `json:"shape"`
	Double bool   `json:"double"`
	F32    string `json:"sha256_f32"`
	BF16   string `json:"sha256_bf16"`
}

func answers(t *testing.T, dir string) map[string]answer {
	text, err := os.ReadFile(filepath.Join(dir, "dequant.json"))
	require.NoError(t, err)
	var all map[string]answer
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all)
	return all
}

// sum is the SHA-256 of weights in an encoding that represents them exactly.
func sum(weights []float32, e kernels.Encoding) string {
	wide := make([]float64, len(weights))
	for i, w := range weights {
		wide[i] = float64(w)
	}
	b := make([]byte, len(weights)*e.Size())
	tensorfile.Narrow(b, e, wide)
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func decode(m *Matrix) []float32 {
	w := make([]float32, m.Rows*m.Cols)
	m.Decode(w, 0)
	return w
}

// Every weight of the cases decodes to the reference's bits, before and after rounding, from any offset.
func TestWeightsDecodeToTheReference(t *testing.T) {
	for _, name := range []string{"nf4-double", "nf4-single"} {
		dir := filepath.Join(golden, name)
		set := open(t, dir)
		for weight, want := range answers(t, dir) {
			m, ok, err := Read(set, weight, want.Shape[0], want.Shape[1])
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, kernels.EncodedBF16, m.Type)
			all := decode(m)
			require.Equal(t, want.BF16, sum(all, kernels.EncodedBF16), weight)
			part := make([]float32, 37)
			m.Decode(part, 101)
			require.Equal(t, all[101:138], part)
			m.Type = kernels.EncodedF32
			require.Equal(t, want.F32, sum(decode(m), kernels.EncodedF32), weight)
		}
		_, ok, err := Read(set, "model.norm.weight", 1, 64)
		require.NoError(t, err)
		require.False(t, ok, "a norm is not quantised")
	}
}

// The values of 8-bit codes are those stored in every file, up to the last bit.
func TestDynamicValues(t *testing.T) {
	table, err := floats(open(t, filepath.Join(golden, "nf4-double")), "model.layers.0.mlp.up_proj.weight.nested_quant_map", 256)
	require.NoError(t, err)
	require.Len(t, dynamic, 256)
	for i, x := range dynamic {
		require.InDelta(t, table[i], x, 0x1p-24+1e-7*math.Abs(float64(x)))
	}
}

// Quantising dequantised weights gives the same codes: the largest weight of a block is its scale.
func TestQuantisingTwiceChangesNothing(t *testing.T) {
	dir := filepath.Join(golden, "nf4-single")
	set := open(t, dir)
	for name, a := range answers(t, dir) {
		m, _, err := Read(set, name, a.Shape[0], a.Shape[1])
		require.NoError(t, err)
		m.Type = kernels.EncodedF32
		again := Quantise(decode(m), m.Rows, m.Cols, false)
		require.Equal(t, m.Codes, again.Codes)
		require.Equal(t, m.Scales, again.Scales)
	}
}

func random(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(r.NormFloat64() * 0.02)
	}
	return w
}

// A matrix that is written and read is the same; each weight is the nearest one of its block, whether blocks end with rows or not; the
// last block may be short.
func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		double     bool
	}{{3, 64, false}, {5, 37, false}, {7, 101, true}, {300, 64, true}, {1, 1, false}} {
		weights := random(uint64(c.rows), c.rows*c.cols)
		if len(weights) > 64 {
			clear(weights[:64]) // a block of zeros
		}
		q := Quantise(weights, c.rows, c.cols, c.double)
		dir := t.TempDir()
		require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), q.Sources("w"), nil))
		m, ok, err := Read(open(t, dir), "w", c.rows, c.cols)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, q.Matrix, *m)

		m.Type = kernels.EncodedF32
		for i, w := range decode(m) {
			scale := m.Scales[i/m.Block]
			best := math.Inf(1)
			for _, v := range values {
				best = min(best, math.Abs(float64(v*scale)-float64(weights[i])))
			}
			slack := 1e-7 + 0.02*float64(scale)*b2f(c.double) // codes were chosen with the scale before its own rounding
			require.InDelta(t, best, math.Abs(float64(w)-float64(weights[i])), slack, "weight %d", i)
		}
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// The beginnings of two quantisation states.
const (
	goodState    = `"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[5,64]`
	float16State = `{"quant_type":"nf4","blocksize":64,"dtype":"float16","shape":[5,64],"nested_blocksize":256,"nested_dtype":"float32"`
)

// A damaged weight is refused by name.
func TestDamagedWeights(t *testing.T) {
	q := Quantise(random(1, 5*64), 5, 64, true)
	edit := func(name string, change func(s *tensorfile.Source)) []tensorfile.Source {
		parts := q.Sources("w")
		i := slices.IndexFunc(parts, func(s tensorfile.Source) bool { return s.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		change(&parts[i])
		return parts
	}
	drop := func(name string) []tensorfile.Source {
		return slices.DeleteFunc(q.Sources("w"), func(s tensorfile.Source) bool { return s.Name == name })
	}
	text := func(json string) []tensorfile.Source {
		return edit("w"+stateName, func(s *tensorfile.Source) { *s = tensorfile.FromBytes(s.Name, []byte(json), len(json)) })
	}
	bytes := func(shape ...int) func(*tensorfile.Source) {
		return func(s *tensorfile.Source) { *s = tensorfile.FromBytes(s.Name, make([]byte, shape[0]), shape...) }
	}
	numbers := func(n int, x float32) func(*tensorfile.Source) {
		return func(s *tensorfile.Source) { *s = tensorfile.FromFloat32s(s.Name, slices.Repeat([]float32{x}, n), n) }
	}
	for _, c := range []struct {
		parts []tensorfile.Source
		says  string
	}{
		{drop("w.absmax"), `tensor "w.absmax" is missing`},
		{drop("w.quant_map"), `tensor "w.quant_map" is missing`},
		{drop("w.nested_absmax"), `tensor "w.nested_absmax" is missing`},
		{drop("w" + stateName), "quantised (U8, without a state)"},
		{edit("w"+stateName, func(s *tensorfile.Source) { s.Name = "w" + anyState + "fp4" }), "quantised (U8, of kind fp4)"},
		{edit("w", bytes(159, 1)), "has 159 bytes of codes, expected 160"},
		{edit("w", bytes(161, 1)), "has 161 bytes of codes, expected 160"},
		{edit("w.absmax", bytes(4)), "shape [4], expected [5]"},
		{edit("w.absmax", bytes(6)), "shape [6], expected [5]"},
		{edit("w.quant_map", numbers(15, 0)), "shape [15], expected [16]"},
		{edit("w.quant_map", numbers(16, float32(math.NaN()))), "w.quant_map"},
		{text(`{`), "not the JSON of a state"},
		{text(`{"quant_type":"fp4","blocksize":64,"dtype":"bfloat16","shape":[5,64]}`), `quant_type: found "fp4"`},
		{text(`{"quant_type":"nf4","blocksize":0,"dtype":"bfloat16","shape":[5,64]}`), "blocksize: found 0"},
		{text(`{"quant_type":"nf4","blocksize":63,"dtype":"bfloat16","shape":[5,64]}`), "blocksize: found 63"},
		{text(`{"quant_type":"nf4","blocksize":1048578,"dtype":"bfloat16","shape":[5,64]}`), "blocksize: found 1048578"},
		{text(`{` + goodState + `}` + strings.Repeat(" ", 1<<16)), "expected a short JSON object"},
		{text(`{` + goodState + `,"nested_blocksize":-1,"nested_offset":0.1,"nested_dtype":"float32"}`), "nested_blocksize and nested_offset"},
		{text(`{"quant_type":"nf4","blocksize":64,"dtype":"int8","shape":[5,64]}`), `dtype: found "int8"`},
		{text(`{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[64,5]}`), "shape [64 5], expected [5 64]"},
		{text(`{` + goodState + `,"nested_blocksize":256}`), "nested_blocksize and nested_offset"},
		{text(`{` + goodState + `,"nested_blocksize":256,"nested_offset":0.1,"nested_dtype":"float16"}`), `nested_dtype: found "float16"`},
		{text(`{` + goodState + `}`), `"w.absmax" is encoded as U8`},
		{text(`{` + goodState + `,"nested_blocksize":256,"nested_offset":1e300,"nested_dtype":"float32"}`), "block 0 has a scale of +Inf"},
		{slices.Concat(edit("w.quant_map", numbers(16, 1e30))[:2], edit("w.nested_absmax", numbers(1, 1e30))[2:]), "for values of up to 1e+30"},
		{text(float16State + `,"nested_offset":65520}`), "expected finite weights"},
		{text(float16State + `,"nested_offset":-65520}`), "expected finite weights"},
	} {
		dir := t.TempDir()
		require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), c.parts, nil))
		_, _, err := Read(open(t, dir), "w", 5, 64)
		require.ErrorContains(t, err, c.says)
		require.True(t, badinput.Is(err), "%v", err)
	}
}

// The block with the largest weights is found anywhere, whatever the sign of its scale; nested scales are read, too.
func TestScalesOfAnySignAndBlock(t *testing.T) {
	read := func(quantised bool, state string, parts ...tensorfile.Source) (*Matrix, error) {
		all := append(parts, tensorfile.FromBytes("w"+stateName, []byte(state), len(state)))
		for _, s := range Quantise(random(1, 5*64), 5, 64, quantised).Sources("w") {
			if !slices.ContainsFunc(all, func(o tensorfile.Source) bool { return o.Name == s.Name }) {
				all = append(all, s)
			}
		}
		dir := t.TempDir()
		require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), all, nil))
		m, _, err := Read(open(t, dir), "w", 5, 64)
		return m, err
	}
	f16 := strings.Replace(`{`+goodState+`}`, "bfloat16", "float16", 1)
	for at := range 5 {
		scales := []float32{1, -2, 3, -2, 1}
		_, err := read(false, f16, tensorfile.FromFloat32s("w.absmax", scales, 5))
		require.NoError(t, err)
		for _, large := range []float32{-65520, 65520, -3e38} {
			scales[at] = large
			_, err = read(false, f16, tensorfile.FromFloat32s("w.absmax", scales, 5))
			require.ErrorContains(t, err, fmt.Sprintf("block %d has a scale of %v", at, large))
		}
	}

	outer := []float32{0.5, 1, -2, 4, 8}
	m, err := read(true, `{`+goodState+`,"nested_blocksize":1,"nested_offset":0.25,"nested_dtype":"float32"}`,
		tensorfile.FromBytes("w.absmax", []byte{255, 255, 255, 255, 255}, 5), tensorfile.FromFloat32s("w.nested_absmax", outer, 5))
	require.NoError(t, err)
	require.Equal(t, []float32{0.75, 1.25, -1.75, 4.25, 8.25}, m.Scales, "the last code is 1")
	_, err = read(true, `{`+goodState+`,"nested_blocksize":1048576,"nested_offset":0.25,"nested_dtype":"float32"}`)
	require.NoError(t, err)
	_, err = read(true, `{`+goodState+`,"nested_blocksize":1048577,"nested_offset":0.25,"nested_dtype":"float32"}`)
	require.ErrorContains(t, err, "nested_blocksize and nested_offset")
}
