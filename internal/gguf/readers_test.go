package gguf

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/tensorfile"
	"github.com/seed-7879b91d/grpo/model"
)

// Properties that other readers rely on and this package's reader does not are compared here with what llama.cpp expects.

func TestWhatReadersAreToldOfAShape(t *testing.T) {
	c, err := model.ReadConfig(changed(t, "llama-rope-scaled", map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 4}}))
	require.NoError(t, err)
	for kind, number := range map[Type]uint32{F32: 0, F16: 1, Q4: 2, Q8: 7, BF16: 32} {
		require.Contains(t, llama.settings(c, kind), Pair{"general.file_type", number})
	}
	for _, p := range []Pair{
		{"llama.rope.dimension_count", uint32(16)}, {"llama.attention.key_length", uint32(16)}, {"llama.attention.value_length", uint32(16)},
		{"llama.rope.scaling.type", "linear"}, {"llama.rope.scaling.factor", float32(4)}, {"llama.vocab_size", uint32(320)},
	} {
		require.Contains(t, llama.settings(c, F32), p)
	}
	require.InDelta(t, 1.138629, yarnMagnitude(4), 1e-6)
	require.Equal(t, []int{8, 9}, []int{Positions(model.Config{Architecture: "MistralForCausalLM", Window: 8, MaxPositions: 9}),
		Positions(model.Config{Architecture: "none", Window: 8, MaxPositions: 9})})
}

// Frequencies are divided by 1 for short wavelengths, by the factor for long ones.
func TestDivisorsOfFrequencies(t *testing.T) {
	c, err := model.ReadConfig("../../model/testdata/golden/llama-rope-scaled")
	require.NoError(t, err)
	for i, got := range factors(c) {
		turns := 64 / (2 * math.Pi) * math.Pow(5e5, -float64(i)/8)
		share := min(max((turns-1)/3, 0), 1)
		require.InEpsilon(t, 1/((1-share)/8+share), got, 1e-6, i)
	}
}

// A GGUF has Gemma 2's norm weights as factors, while its own files have them minus one.
func TestNormsOfGemma2AreWhole(t *testing.T) {
	dir := changed(t, "gemma2-softcap", map[string]any{"query_pre_attn_scalar": 32})
	path := filepath.Join(t.TempDir(), "x")
	_, err := Export(t.Context(), dir, path, "x", F32)
	require.NoError(t, err)
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	set, err := tensorfile.OpenModel(dir)
	require.NoError(t, err)
	defer set.Close()
	norm, err := set.Tensor("model.norm.weight")
	require.NoError(t, err)
	at, got := f.tensors[lastNorm], make([]float32, norm.Len())
	F32.decode(got, f.mapping.Bytes[at.from:at.to])
	for i, w := range tensorfile.Float32s(norm) {
		require.Equal(t, w+1, got[i])
	}
}

func TestKindsOfTokens(t *testing.T) {
	var w tokenizerFile
	require.NoError(t, json.Unmarshal([]byte(`{"added_tokens":[{"id":0,"content":"<unk>","special":true},{"id":2,"content":"▁▁"}],
		"model":{"unk_token":"<unk>","byte_fallback":true,"vocab":{"<unk>":0,"<0x0A>":1,"▁▁":2,"▁":3}}}`), &w))
	pairs := map[string]any{}
	for _, p := range w.tokens(5) {
		pairs[p.Key] = p.Value
	}
	require.Equal(t, []string{"<unk>", "<0x0A>", "  ", "▁", "[PAD4]"}, pairs["tokenizer.ggml.tokens"])
	require.Equal(t, []int32{unknownToken, byteToken, userToken, normalToken, unusedToken}, pairs["tokenizer.ggml.token_type"])
	w = tokenizerFile{} // in a byte-level vocabulary ▁ is an ordinary letter
	require.NoError(t, json.Unmarshal([]byte(`{"added_tokens":[{"id":1,"content":"<tool▁call>"}],"model":{"vocab":{"x":0}}}`), &w))
	require.Equal(t, []string{"x", "<tool▁call>"}, w.tokens(2)[0].Value)
	for pre, want := range map[string]bool{
		`{"type":"Metaspace","prepend_scheme":"never"}`: false, `{"type":"Metaspace","prepend_scheme":"first"}`: true,
		`{"type":"Metaspace","add_prefix_space":false}`: false, `{"type":"Metaspace","add_prefix_space":true}`: true,
		`{"type":"Metaspace"}`: true, `{"type":"ByteLevel"}`: false,
	} {
		var w tokenizerFile
		require.NoError(t, json.Unmarshal([]byte(`{"pre_tokenizer":`+pre+`}`), &w))
		require.Equal(t, want, w.prefixed(), pre)
	}
	for blank, want := range map[string]bool{"▁": true, "": false} {
		w = tokenizerFile{Normalizer: &tokenizerStep{Type: "Prepend", Prepend: blank}}
		require.Equal(t, want, w.prefixed())
	}
}

// A row of the embedding without a token gets a unique text, as readers require.
func TestRowsWithoutATokenHaveTextsOfTheirOwn(t *testing.T) {
	var w tokenizerFile
	require.NoError(t, json.Unmarshal([]byte(`{"added_tokens":[{"id":1,"content":"[[PAD3]]","special":true}],
		"model":{"vocab":{"[PAD3]":0,"[PAD2]":2}}}`), &w))
	require.Equal(t, []string{"[PAD3]", "[[PAD3]]", "[PAD2]", "[[[PAD3]]]", "[PAD4]"}, w.tokens(5)[0].Value)
}

// The beginning-of-text token is added if the tokenizer adds it, and the end of a turn may differ from the end of a text.
func TestTokensAtTheEnds(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../data/tokenizer/testdata/small/tokenizer.json")
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(text, &keys))
	write := func(name string, v any) {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	write("generation_config.json", map[string]any{"eos_token_id": []int{381, 379}})
	write("tokenizer_config.json", map[string]any{"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>", "chat_template": []any{
		map[string]any{"name": "default", "template": "D"}, map[string]any{"name": "tool_use", "template": "T"}}})
	first := map[string]any{"SpecialToken": map[string]any{"id": "<|im_start|>", "type_id": 0}}
	for begins, post := range map[bool]any{false: nil, true: map[string]any{"type": "TemplateProcessing", "single": []any{first}}} {
		keys["post_processor"] = post
		write("tokenizer.json", keys)
		_, err := tokenizer.Load(dir)
		require.NoError(t, err)
		pairs, _, err := vocabulary(dir, model.Config{Vocab: 384})
		require.NoError(t, err)
		for _, p := range []Pair{
			{"tokenizer.ggml.add_bos_token", begins}, {"tokenizer.ggml.bos_token_id", uint32(380)}, {"tokenizer.ggml.eos_token_id", uint32(379)},
			{"tokenizer.ggml.eot_token_id", uint32(381)}, {"tokenizer.chat_template", "D"}, {"tokenizer.chat_template.tool_use", "T"},
		} {
			require.Contains(t, pairs, p)
		}
	}
}

// Integers of a header are read as signed or unsigned by their type.
func TestSignsOfNumbers(t *testing.T) {
	for kind, want := range map[uint32]int64{
		isUint8: 254, isInt8: -2, isUint16: 254 | 255<<8, isInt16: -2, isUint32: 1<<32 - 2, isInt32: -2, isInt64: -2,
	} {
		c := &cursor{data: []byte{254, 255, 255, 255, 255, 255, 255, 255}}
		require.Equal(t, want, c.single(kind), kind)
	}
}
