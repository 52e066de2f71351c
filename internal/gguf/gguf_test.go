package gguf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

const golden = "../../model/testdata/golden"

// changed is a copy of a model with other settings.
func changed(t *testing.T, name string, settings map[string]any) (dir string) {
	t.Helper()
	dir = t.TempDir()
	entries, err := os.ReadDir(filepath.Join(golden, name))
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() || e.Name() == "config.json" {
			continue
		}
		from, err := filepath.Abs(filepath.Join(golden, name, e.Name()))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(from, filepath.Join(dir, e.Name())))
	}
	text, err := os.ReadFile(filepath.Join(golden, name, "config.json"))
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(text, &keys))
	maps.Copy(keys, settings)
	text, err = json.Marshal(keys)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
	return dir
}

// scores are the log-probabilities of some tokens by a model.
func scores(t *testing.T, open func(b kernels.Backend, o model.Options) (*model.Policy, error)) [][]float32 {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer b.Close()
	p, err := open(b, model.Options{MaxRows: 64})
	require.NoError(t, err)
	tokens := make([]int32, 40)
	for i := range tokens {
		tokens[i] = int32((i*i + 7*i + 3) % p.Vocab)
	}
	got, err := p.Score(t.Context(), [][]int32{tokens, tokens[5:20]}, 1)
	require.NoError(t, err)
	return got
}

func maxDiff(a, b [][]float32) (most float64) {
	for i := range a {
		for k := range a[i] {
			most = math.Max(most, math.Abs(float64(a[i][k])-float64(b[i][k])))
		}
	}
	return most
}

// Each family is read back as the same model: its shape, and its log-probabilities.
func TestEveryFamilyComesBack(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]any
		reads    string // the architecture after reading
		exact    bool
	}{
		{"qwen3-tied", nil, "Qwen3ForCausalLM", true},
		{"qwen3-untied-sharded", nil, "Qwen3ForCausalLM", true},
		{"qwen2-bias", nil, "Qwen2ForCausalLM", true},
		{"llama-rope-scaled", nil, "LlamaForCausalLM", true},
		{"mistral-yarn", map[string]any{"sliding_window": nil}, "LlamaForCausalLM", false},
		{"gemma2-softcap", map[string]any{"query_pre_attn_scalar": 32}, "Gemma2ForCausalLM", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := changed(t, c.name, c.settings)
			want := scores(t, func(b kernels.Backend, o model.Options) (*model.Policy, error) { return model.Open(b, dir, false, o) })
			shape, err := model.ReadConfig(dir)
			require.NoError(t, err)
			for kind, most := range map[Type]float64{BF16: 1e-5, F32: 1e-5, F16: 0.02, Q8: 0.3, Q4: 4} {
				path := filepath.Join(t.TempDir(), "model.gguf")
				_, err := Export(t.Context(), dir, path, "test", kind)
				require.NoError(t, err)
				f, err := Open(path)
				require.NoError(t, err)
				got, err := f.Config()
				require.NoError(t, err)
				require.Equal(t, c.reads, got.Architecture)
				got.Architecture = shape.Architecture
				require.InDelta(t, shape.RopeScale(), got.RopeScale(), 1e-6)
				for i, turns := range shape.Frequencies() {
					require.InEpsilon(t, turns, got.Frequencies()[i], 1e-6)
				}
				shape, got := withoutRope(shape), withoutRope(got)
				shape.DType = got.DType
				require.Equal(t, shape, got)
				off := maxDiff(want, scores(t, func(b kernels.Backend, o model.Options) (*model.Policy, error) { return f.Model(t.Context(), b, o) }))
				require.LessOrEqual(t, off, most, "%s", kind)
				if kind == BF16 && c.exact {
					require.Zero(t, off)
				}
				require.NoError(t, f.Close())
			}
		})
	}
}

// withoutRope removes what was compared already, with the rounding of the format.
func withoutRope(c model.Config) model.Config {
	c.RopeScaling, c.RopeTheta, c.Sliding = model.Config{}.RopeScaling, 0, nil
	return c
}

func TestModelsThatReadersWouldMisreadAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	for _, c := range []struct {
		name     string
		settings map[string]any
		says     string
	}{
		{"gemma2-softcap", nil, "query_pre_attn_scalar is 24 where 32 is meant"},
		{"gemma2-softcap", map[string]any{"attn_logit_softcapping": nil}, "no attn_logit_softcapping"},
		{"mistral-yarn", map[string]any{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4, "truncate": false}}, "truncate=false"},
		{"mistral-yarn", map[string]any{"rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4, "beta_fast": 16}}, "beta_fast=16"},
		{"gemma2-softcap", map[string]any{"query_pre_attn_scalar": 32, "tie_word_embeddings": false}, "an output head of its own"},
		{"qwen2-bias", map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 4, "low_freq_factor": 1,
			"high_freq_factor": 4, "original_max_position_embeddings": 64}}, "rope_scaling of type llama3"},
		{"qwen2-bias", map[string]any{"head_dim": 16, "num_attention_heads": 2}, "where hidden_size"},
		{"qwen3-tied", map[string]any{"attention_bias": true}, "the model has attention_bias"},
		{"nf4-single", nil, "type grpo quantize --undo"},
	} {
		_, err := Export(t.Context(), changed(t, c.name, c.settings), path, "x", BF16)
		require.ErrorContains(t, err, c.says)
		require.True(t, badinput.Is(err))
		_, err = os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	notes, err := Export(t.Context(), changed(t, "mistral-yarn", nil), path, "x", BF16)
	require.NoError(t, err)
	require.Contains(t, notes[0], "its context is 8 tokens there, not 4096")
	for _, wide := range []int{4096, 5000} { // a window of all positions counts as none
		notes, err := Export(t.Context(), changed(t, "mistral-yarn", map[string]any{"sliding_window": wide}), path, "x", BF16)
		require.NoError(t, err)
		require.NotContains(t, notes, "")
		require.Empty(t, slices.DeleteFunc(notes, func(n string) bool { return !strings.Contains(n, "context") }))
		f, err := Open(path)
		require.NoError(t, err)
		got, err := f.Config()
		require.NoError(t, err)
		require.Equal(t, 4096, got.MaxPositions)
		require.NoError(t, f.Close())
	}
}

// Encoded blocks are those of the format's definition, written out by hand.
func TestBlocksAreThoseOfTheFormat(t *testing.T) {
	x := make([]float32, 32)
	x[0], x[1], x[2], x[16], x[31] = -8, 4, 1.5, 7.9, 0.4
	got := make([]byte, 34)
	require.NoError(t, Q8.encode(got, x, nil))
	// The scale is 8/127 in f16: 0.06298828125 is 0x2c08.
	require.Equal(t, []byte{0x08, 0x2c, 129, 64, 24, 0}, got[:6])
	require.Equal(t, byte(125), got[2+16])
	require.Equal(t, byte(6), got[2+31])

	got = make([]byte, 18)
	require.NoError(t, Q4.encode(got, x, nil))
	// The scale is −8/−8; codes are 8 + x, rounded, and at most 15.
	require.Equal(t, []byte{0x00, 0x3c, 0 | 15<<4, 12 | 8<<4, 10 | 8<<4}, got[:5])
	require.Equal(t, byte(8|8<<4), got[2+15])
	back := make([]float32, 32)
	Q4.decode(back, got)
	require.Equal(t, []float32{-8, 4, 2, 0}, back[:4])
	require.Equal(t, []float32{7, 0}, back[16:18])
}

// Random numbers of all magnitudes decode within the error bounds, and larger errors are found.
func TestEncodingIsChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	room, wide := make([]float32, 64), make([]float64, 64)
	for _, kind := range []Type{F32, BF16, F16, Q8, Q4} {
		for exponent := -30.0; exponent < 15; exponent++ {
			x := make([]float32, 64)
			for i := range x {
				x[i] = float32(rng.NormFloat64() * math.Pow(2, exponent))
			}
			size, _ := kind.size([]int{64})
			b := make([]byte, size)
			require.NoError(t, kind.encode(b, x, wide))
			require.NoError(t, kind.check(x, b, room), "%s, 2^%g", kind, exponent)
			x[40] += 0.3 * float32(math.Pow(2, exponent)) * 4
			if exponent > -15 {
				require.Error(t, kind.check(x, b, room), "%s, 2^%g", kind, exponent)
			}
		}
	}
	require.ErrorContains(t, F16.encode(make([]byte, 2), []float32{70000}, wide), "type --type bf16")
}

// Subnormal numbers are rounded to an absolute step, and not to a relative one.
func TestTheSmallestNumbersAreWritten(t *testing.T) {
	x, room, wide := []float32{1e-39, -3e-41, 1e-45, 0}, make([]float32, 4), make([]float64, 4)
	for _, kind := range []Type{F32, BF16, F16} {
		size, _ := kind.size([]int{4})
		b := make([]byte, size)
		require.NoError(t, kind.encode(b, x, wide))
		require.NoError(t, kind.check(x, b, room), kind)
	}
}

// The bytes of a small file, as the format describes them.
func TestBytesOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, Write(path, []Pair{{"a", uint32(7)}, {"b", []string{"x", ""}}}, []Tensor{
		{"t", F32, []int{1, 2}, func(w io.Writer) error { return tensorfile.WriteFloat32s(w, []float32{1, 2}) }},
	}))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	u64 := func(n byte) string { return string([]byte{n, 0, 0, 0, 0, 0, 0, 0}) }
	want := "GGUF\x03\x00\x00\x00" + u64(1) + u64(2) +
		u64(1) + "a\x04\x00\x00\x00\x07\x00\x00\x00" +
		u64(1) + "b\x09\x00\x00\x00\x08\x00\x00\x00" + u64(2) + u64(1) + "x" + u64(0) +
		u64(1) + "t\x02\x00\x00\x00" + u64(2) + u64(1) + "\x00\x00\x00\x00" + u64(0)
	want += string(make([]byte, room(len(want))-len(want))) + "\x00\x00\x80\x3f\x00\x00\x00\x40" + string(make([]byte, 24))
	require.Equal(t, want, string(got))
	for _, given := range []string{"", "12345678more"} {
		tensor := Tensor{"t", F32, []int{2}, func(w io.Writer) error { _, err := io.WriteString(w, given); return err }}
		require.ErrorContains(t, Write(path, nil, []Tensor{tensor}), fmt.Sprintf("%d bytes were given", len(given)))
	}
}

// A truncated file, or one with a changed byte in its header, is refused or read as a valid one, without a panic.
func TestDamagedFilesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	_, err := Export(t.Context(), changed(t, "llama-rope-scaled", nil), path, "x", Q8)
	require.NoError(t, err)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := read(whole)
	require.NoError(t, err)
	begin := f.tensors[f.order[0]].from
	for n := 0; n < len(whole); n += 1 + len(whole)/97 {
		_, err := read(whole[:n])
		require.True(t, badinput.Is(err), "%d bytes: %v", n, err)
	}
	require.Error(t, func() error { _, err := read(append(bytes.Clone(whole), make([]byte, 32)...)); return err }())
	for at := 0; at < begin; at += 3 {
		b := bytes.Clone(whole)
		b[at] ^= 0xFF
		if f, err := read(b); err == nil {
			f.mapping = &tensorfile.Mapping{Bytes: b}
			if _, err := f.Set(); err != nil {
				require.True(t, badinput.Is(err), "byte %d: %v", at, err)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	head, err := header([]Pair{{"general.architecture", "llama"}, {"x", []float32{1}}}, []Tensor{{Name: "t", Type: Q8, Shape: []int{1, 32}}})
	require.NoError(f, err)
	f.Add(append(padded(slices.Clone(head)), make([]byte, 64)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := read(data)
		if err != nil {
			if !badinput.Is(err) {
				t.Fatalf("not an input error: %v", err)
			}
			return
		}
		file.mapping = &tensorfile.Mapping{Bytes: data}
		if _, err := file.Set(); err != nil && !badinput.Is(err) {
			t.Fatalf("not an input error: %v", err)
		}
		_, _ = file.Text([]int32{0})
	})
}

// The weight of a norm stored in 16 bits is read, and what the format adds to it is subtracted.
func TestANormIn16Bits(t *testing.T) {
	for kind, one := range map[Type][]byte{F16: {0x00, 0x3c}, BF16: {0x80, 0x3f}} {
		raw, err := tensorChange{offset: 1}.undo(bytes.Repeat(one, 3), tensorPlace{kind: kind, shape: []int{3}}, 2)
		require.NoError(t, err)
		require.Equal(t, make([]byte, 6), raw)
	}
}

// A quantised bias, which no program writes, is refused, since its rows cannot be permuted.
func TestABiasOfBlocksIsRefused(t *testing.T) {
	_, err := tensorChange{heads: 2, width: 16}.undo(make([]byte, 34), tensorPlace{kind: Q8, shape: []int{32}}, 4)
	require.ErrorContains(t, err, "q8_0 has blocks of 32")
}

// A cancelled export leaves no file.
func TestAStoppedExportLeavesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	path := filepath.Join(t.TempDir(), "model.gguf")
	for _, kind := range []Type{BF16, Q8} { // copied, and encoded
		_, err := Export(ctx, changed(t, "qwen3-tied", nil), path, "x", kind)
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, badinput.Is(err))
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, left)
}
