package chat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Content is unchanged; a token that begins every text is added before it.
func TestPlain(t *testing.T) {
	const said = "def f(x):\n    \"\"\" <|im_end|> {{x}} \"\"\"\n"
	for config, bos := range map[string]string{
		`{}`:                            "",
		`{"bos_token": "<|im_start|>"}`: "<|im_start|>",
		`{"bos_token": "<|im_start|>", "eos_token": "<|im_start|>"}`:                              "",
		`{"bos_token": "<|im_start|>", "chat_template": "{{ messages[0].content }}"}`:             "",
		`{"bos_token": "<|im_start|>", "chat_template": "{{ bos_token + messages[0].content }}"}`: "<|im_start|>",
	} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "tokenizer", "testdata", "small"))))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o644))
		tok := load(t, dir)
		r, err := Plain(tok)
		require.NoError(t, err)
		require.Equal(t, "plain", r.Name())
		tokens, text, err := r.Prompt([]Message{{Role: "user", Content: said}})
		require.NoError(t, err)
		require.Equal(t, bos+said, text, config)
		if bos != "" {
			id, ok := tok.TokenID(bos)
			require.True(t, ok)
			require.Equal(t, id, tokens[0])
			tokens = tokens[1:]
		}
		require.Equal(t, tok.Encode(said), tokens, "a special token that is quoted is text")
	}
}
