package gguf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/tiny"
	"github.com/seed-7879b91d/grpo/model"
)

// writeAndOpen writes a header with these pairs, and reads it.
func writeAndOpen(t *testing.T, pairs []Pair) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, Write(path, pairs, nil))
	f, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestAVocabularyOfBytes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, tiny.Extract(dir))
	pairs, notes, err := vocabulary(dir, model.Config{Vocab: 800})
	require.NoError(t, err)
	require.Empty(t, notes)
	f := writeAndOpen(t, pairs)
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	for id := range int32(tok.VocabSize()) {
		got, err := f.Text([]int32{id})
		require.NoError(t, err)
		require.Equal(t, tok.Decode([]int32{id}, false), got)
	}
	broken := []int32{139, 140, 65, 130, 799} // bytes that form no characters together, and a row of the embedding without a token
	got, err := f.Text(broken)
	require.NoError(t, err)
	require.Equal(t, tok.Decode(broken, false), got)
	for key, want := range map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.eos_token_id": int64(767),
		"tokenizer.ggml.padding_token_id": int64(765), "tokenizer.ggml.add_bos_token": false, "tokenizer.chat_template": tok.ChatTemplate(),
	} {
		require.Equal(t, want, f.pairs[key], key)
	}
	require.NotContains(t, f.pairs, "tokenizer.ggml.bos_token_id")
	kinds := f.pairs["tokenizer.ggml.token_type"].([]float64)
	require.Equal(t, []float64{normalToken, controlToken, controlToken, controlToken, unusedToken}, kinds[764:769])
	require.Equal(t, "[PAD799]", f.pairs["tokenizer.ggml.tokens"].([]string)[799])
	_, _, err = vocabulary(dir, model.Config{Vocab: 700})
	require.ErrorContains(t, err, "it has 768 tokens, the model's vocab_size is 700; type --format safetensors")
}

// The variants of SentencePiece vocabularies, compared with what Hugging Face's tokenizers make of tokens.
func TestAVocabularyOfCharacters(t *testing.T) {
	text, err := os.ReadFile("../../data/tokenizer/testdata/sentencepiece/vectors.json")
	require.NoError(t, err)
	var all struct {
		AddedTokens json.RawMessage `json:"added_tokens"`
		Model       json.RawMessage `json:"model"`
		Variants    []struct {
			Name         string          `json:"name"`
			Normalizer   json.RawMessage `json:"normalizer"`
			PreTokenizer json.RawMessage `json:"pre_tokenizer"`
			Decoder      json.RawMessage `json:"decoder"`
			Vectors      []struct{ IDs []int32 }
		} `json:"variants"`
	}
	require.NoError(t, json.Unmarshal(text, &all))
	for _, v := range all.Variants {
		dir := t.TempDir()
		file, err := json.Marshal(map[string]any{"added_tokens": all.AddedTokens, "model": all.Model, "normalizer": v.Normalizer,
			"pre_tokenizer": v.PreTokenizer, "decoder": v.Decoder})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o644))
		tok, err := tokenizer.Load(dir)
		require.NoError(t, err, v.Name)
		pairs, _, err := vocabulary(dir, model.Config{Vocab: tok.VocabSize()})
		require.NoError(t, err, v.Name)
		f := writeAndOpen(t, pairs)
		require.Equal(t, "llama", f.pairs["tokenizer.ggml.model"])
		kinds, scores := f.pairs["tokenizer.ggml.token_type"].([]float64), f.pairs["tokenizer.ggml.scores"].([]float64)
		bytes := 0
		for i, k := range kinds {
			if k == byteToken {
				bytes++
			}
			require.LessOrEqual(t, scores[i], 0.0)
		}
		require.Equal(t, 256, bytes, v.Name)
	}
}

func TestWaysToCutTextAreNamed(t *testing.T) {
	split := func(regex string) string {
		text, _ := json.Marshal(map[string]any{"type": "Split", "pattern": map[string]string{"Regex": regex}, "behavior": "Isolated"})
		return string(text)
	}
	plain := `{"type":"ByteLevel","use_regex":false}`
	sequence := func(steps ...string) string {
		all := ""
		for i, s := range steps {
			if i > 0 {
				all += ","
			}
			all += s
		}
		return `{"type":"Sequence","pretokenizers":[` + all + `]}`
	}
	digits := `{"type":"Digits","individual_digits":true}`
	for _, c := range []struct {
		pre   string
		whole bool
		name  string
	}{
		{sequence(split(qwenWords), plain), false, "qwen2"}, {sequence(split(llamaWords), plain), true, "llama-bpe"},
		{sequence(split(llamaWords), plain), false, "dbrx"}, {`{"type":"ByteLevel"}`, false, "gpt-2"},
		{sequence(digits, `{"type":"ByteLevel","use_regex":true}`), false, "smollm"},
		{sequence(split(`[\r\n]`), split(`\s?\p{L}+`), split(`\s?\p{P}+`), split(`[一-龥ࠀ-一가-퟿]+`), digits, plain), false, "deepseek-coder"},
		{sequence(split(qwenWords), plain), true, ""}, {sequence(split(`\d+`), plain), false, ""},
	} {
		var w tokenizerFile
		require.NoError(t, json.Unmarshal([]byte(`{"pre_tokenizer":`+c.pre+`}`), &w))
		w.Model.IgnoreMerges = c.whole
		name, err := w.preTokenizer()
		require.Equal(t, c.name, name)
		require.Equal(t, c.name == "", err != nil)
	}
}

// Scores give merges the same order as their ranks.
func TestScoresAreRanks(t *testing.T) {
	var w tokenizerFile
	require.NoError(t, json.Unmarshal([]byte(`{"model":{"byte_fallback":true,"vocab":{"a":0,"b":1,"ab":2,"abb":3},
		"merges":["a b",["ab","b"],"a bb"]}}`), &w))
	require.Equal(t, []float32{-4, -4, 0, -1}, w.scores(4))
}
