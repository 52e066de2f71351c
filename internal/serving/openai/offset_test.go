package openai

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// The offset of a token counts only visible text before it: also after a control token that begins thoughts.
func TestOffsetsBehindThoughts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, tiny.Extract(dir))
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		text = bytes.Replace(text, []byte("<|im_start|>"), []byte("<think>"), 1)
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	s := scripted(t)
	s.Language.Tokenizer, s.tokens = tok, tok.EncodeSpecial("<think> b")
	c := continued(t, New(s, Options{}), `"prompt":"a","logprobs":1`).Choices[0]
	require.Equal(t, "<think> b", c.Text)
	require.Equal(t, []int{0, 7}, c.LogProbs.Offsets[:2])
}

// The offset of a token after one that is half a character is after the replacement character; a token that completes the character
// begins where the character does.
func TestOffsetsBehindHalfACharacter(t *testing.T) {
	s := scripted(t)
	wave, b := s.Language.Tokenizer.Encode("👋"), s.Language.Tokenizer.Encode("b")[0]
	require.Greater(t, len(wave), 1)
	s.tokens = append([]int32{wave[0], b}, append(wave, b)...)
	c := continued(t, New(s, Options{}), `"prompt":"a","logprobs":1`).Choices[0]
	require.Equal(t, "\uFFFDb👋b", c.Text)
	want := []int{0, 1}
	for range wave {
		want = append(want, 2)
	}
	require.Equal(t, append(want, 3), c.LogProbs.Offsets[:len(s.tokens)])

	c = continued(t, New(s, Options{}), fmt.Sprintf(`"echo":true,"max_tokens":0,"logprobs":1,"prompt":[%d,%d]`, wave[0], b)).Choices[0]
	require.Equal(t, []int{0, 1}, c.LogProbs.Offsets)
	s.tokens = append(wave[:1:1], s.Language.Tokenizer.EncodeSpecial("<|im_start|>")...) // is not shown
	c = continued(t, New(s, Options{}), `"prompt":"a","logprobs":1`).Choices[0]
	require.Equal(t, "\uFFFD", c.Text)
	require.Equal(t, []int{0, 1}, c.LogProbs.Offsets)
}

// If usage is requested, every line of a stream has it, also the one with the tokens of the prompt.
func TestUsageInEveryLine(t *testing.T) {
	body := with(`"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true`)
	w := httptest.NewRecorder()
	New(scripted(t, "a"), Options{}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
	list := lines(t, w.Body.String())
	require.Contains(t, list[0], `"prompt_token_ids":[`)
	for _, line := range list[:len(list)-1] {
		require.Contains(t, line, `"usage":`)
	}
}
