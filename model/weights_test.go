package model

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/backendtest"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

// cancelAfter is a context that is cancelled after Err was called a number of times.
type cancelAfter struct {
	context.Context
	left *int
}

func (a cancelAfter) Err() error {
	if *a.left--; *a.left < 0 {
		return context.Canceled
	}
	return nil
}

// Cancelling ends the reading of a model early.
func TestOpeningAModelCanBeStopped(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	var nothing context.Context
	require.PanicsWithValue(t, "model.OpenContext: the argument ctx is nil, expected a context, such as context.Background()",
		func() { _, _ = OpenContext(nothing, b, goldenDir("qwen3-tied"), false, Options{}) })
	for _, name := range []string{"qwen3-tied", "nf4-double"} {
		for _, whole := range []bool{false, true} {
			if whole && name == "nf4-double" {
				continue // which is refused
			}
			left := 1 << 30
			_, err := OpenContext(cancelAfter{t.Context(), &left}, b, goldenDir(name), whole, Options{})
			require.NoError(t, err)
			times := 1<<30 - left
			require.Greater(t, times, 6, "the context is checked at each block")
			for _, left := range []int{0, times / 2, times - 1} {
				_, err = OpenContext(cancelAfter{t.Context(), &left}, b, goldenDir(name), whole, Options{})
				require.ErrorIs(t, err, context.Canceled)
				require.False(t, badinput.Is(err))
			}
		}
	}
}

// A non-finite weight is refused by the name of its tensor, before anything is computed: in a base with an adapter, in full training, and
// in numbers beside 4-bit codes.
func TestWeightsThatAreNoNumbersAreRefused(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	for _, name := range []string{"qwen3-tied", "nf4-double"} {
		set, err := tensorfile.OpenModel(goldenDir(name))
		require.NoError(t, err)
		defer set.Close()
		for _, bad := range []string{"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight"} {
			var sources []tensorfile.Source
			for _, n := range set.Names() {
				tensor, err := set.Tensor(n)
				if err != nil { // 4-bit codes
					codes, shape, err := set.Bytes(n)
					require.NoError(t, err)
					sources = append(sources, tensorfile.FromBytes(n, codes, shape...))
					continue
				}
				if n == bad {
					values := tensorfile.Float32s(tensor)
					values[len(values)-1] = float32(math.Inf(1))
					sources = append(sources, tensorfile.FromFloat32s(n, values, tensor.Shape...))
					continue
				}
				sources = append(sources, tensorfile.FromTensor(tensor))
			}
			dir := t.TempDir()
			require.NoError(t, tensorfile.Write(filepath.Join(dir, tensorfile.SingleName), sources, nil))
			text, err := os.ReadFile(filepath.Join(goldenDir(name), "config.json"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
			for _, whole := range []bool{false, name != "nf4-double"} {
				_, err = Open(b, dir, whole, Options{})
				require.ErrorContains(t, err, bad)
				require.True(t, badinput.Is(err), "%v", err)
			}
		}
	}
}

// The config.json saved by full training names the type of its weights, f32, once; unless the model's computation depends on the type in
// its own config.json.
func TestASavedModelSaysItsType(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	for name, c := range map[string]struct{ has, hasNot string }{
		"qwen3-tied":     {`"torch_dtype": "float32"`, "bfloat16"},
		"gemma2-softcap": {`"dtype": "bfloat16"`, "float32"},
	} {
		p, err := Open(b, goldenDir(name), true, Options{})
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(goldenDir(name), "config.json"))
		require.NoError(t, err)
		base, dir := t.TempDir(), t.TempDir()
		newer := bytes.Replace(text, []byte("torch_dtype"), []byte("dtype"), 1) // the key of newer programs
		require.NoError(t, os.WriteFile(filepath.Join(base, "config.json"), newer, 0o644))
		require.NoError(t, p.Save(dir, base))
		text, err = os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		require.Contains(t, string(text), c.has)
		require.NotContains(t, string(text), c.hasNot)
	}
}

// The other files of a model are copied with its weights, byte for byte.
func TestASavedModelHasWhatIsBesideItsWeights(t *testing.T) {
	b := backendtest.CPU(t, cpu.Options{Threads: 1})
	defer b.Close()
	p, err := Open(b, goldenDir("qwen3-tied"), true, Options{})
	require.NoError(t, err)
	base, dir := t.TempDir(), t.TempDir()
	text, err := os.ReadFile(filepath.Join(goldenDir("qwen3-tied"), "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(base, "config.json"), text, 0o644))
	beside := []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
		"merges.txt", "added_tokens.json", "chat_template.jinja", "additional_chat_templates/tool_use.jinja"}
	require.NoError(t, os.Mkdir(filepath.Join(base, "additional_chat_templates"), 0o755))
	for _, name := range beside {
		require.NoError(t, os.WriteFile(filepath.Join(base, name), []byte(name+"\n"), 0o644))
	}
	require.NoError(t, p.Save(dir, base))
	for _, name := range beside {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, name+"\n", string(text))
	}
}
