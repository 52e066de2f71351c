package openai

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/tiny"
)

// Where a token stands counts what is shown of those before it: also a control token that begins thoughts.
func TestOffsetsBehindThoughts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, tiny.Extract(dir))
	file := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = bytes.Replace(text, []byte("<|im_start|>"), []byte("<think>"), 1)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	tok, err := tokenizer.Load(dir)
	require.NoError(t, err)
	s := scripted(t)
	s.Language.Tokenizer, s.tokens = tok, tok.EncodeSpecial("<think> b")
	c := continued(t, New(s, Options{}), `"prompt":"a","logprobs":1`).Choices[0]
	require.Equal(t, "<think> b", c.Text)
	require.Equal(t, []int{0, 7}, c.LogProbs.Offsets[:2])
}

// Every line of a stream tells of usage where it is asked for, also the one with the tokens of the prompt.
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
