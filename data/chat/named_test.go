package chat

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// Templates in files of their own replace those of tokenizer_config.json, as in transformers: the default one, and the one for tools. If
// there is no default, the error says so.
func TestTemplatesInFilesOfTheirOwn(t *testing.T) {
	words, err := os.ReadFile("../tokenizer/testdata/small/tokenizer.json")
	require.NoError(t, err)
	const folder = "additional_chat_templates/"
	for _, c := range []struct {
		files                 map[string]string
		plain, tools, refused string
	}{
		{files: map[string]string{"tokenizer_config.json": `{"chat_template":"C"}`}, plain: "C"},
		{files: map[string]string{"tokenizer_config.json": `{"chat_template":null}`}, refused: "the model has no chat template;"},
		{files: map[string]string{"chat_template.jinja": "F", folder + "tool_use.jinja": "T"}, plain: "F", tools: "T"},
		{files: map[string]string{"chat_template.jinja": "F", folder + "rag.jinja": "R", folder + "README": "x"}, plain: "F"},
		{files: map[string]string{folder + "default.jinja": "D", folder + "tool_use.jinja": "T"}, plain: "D", tools: "T"},
		{files: map[string]string{folder + "tool_use.jinja": "T", folder + "rag.jinja": "R", "tokenizer_config.json": `{"chat_template":"C"}`},
			tools:   "T",
			refused: "the chat templates rag, tool_use, and none named default; copy one of them to chat_template.jinja"},
		{files: map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"R"}]}`},
			refused: "the model has the chat templates rag, and none"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), words, 0o644))
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
		for name, text := range c.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		tok, err := tokenizer.Load(dir)
		require.NoError(t, err)
		require.Equal(t, [2]string{c.plain, c.tools}, [2]string{tok.ChatTemplate(), tok.ToolTemplate()})
		r, err := ForModel(tok, Options{})
		if c.refused != "" {
			require.ErrorContains(t, err, c.refused)
			continue
		}
		require.NoError(t, err)
		_, text, err := r.Prompt([]Message{{Role: "user", Content: "x"}}, Tool(`{"type":"function","function":{"name":"f"}}`))
		require.NoError(t, err)
		require.Equal(t, cmp.Or(c.tools, c.plain), text)
	}
}
