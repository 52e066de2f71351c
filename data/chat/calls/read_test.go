package calls

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

func TestTurnsAreRead(t *testing.T) {
	run := chat.ToolCall{Name: "run", Arguments: json.RawMessage(`{"code": "1"}`)}
	for _, c := range []struct {
		notation   Notation
		text       string
		want       Said
		call, said string // of a malformed call: its text, and the error
	}{
		{Hermes, "It is 3.", Said{Content: "It is 3."}, "", ""},
		{thinker, "<think>\nhm <tool_call>\n</think>\n\nSo.\n<tool_call>\n{\"name\": \"run\", \"arguments\": {\"code\": \"1\"}}\n</tool_call>",
			Said{Thoughts: "hm <tool_call>", Content: "So.", Calls: []chat.ToolCall{run}}, "", ""},
		{Notation{}, "<tool_call>x</tool_call>", Said{Content: "<tool_call>x</tool_call>"}, "", ""},
		{Hermes, "a <tool_call>run(1)</tool_call> b", Said{Content: "a <tool_call>run(1)</tool_call> b"},
			"<tool_call>run(1)</tool_call>", "expected a JSON object, and read invalid character 'r' looking for beginning of value"},
		{Hermes, `<tool_call>{"arguments": {}}</tool_call>`, Said{Content: `<tool_call>{"arguments": {}}</tool_call>`},
			`<tool_call>{"arguments": {}}</tool_call>`, `"name": expected that of a tool`},
		{Hermes, `<tool_call>{"name": "run", "arguments": [1]}</tool_call>`,
			Said{Content: `<tool_call>{"name": "run", "arguments": [1]}</tool_call>`},
			`<tool_call>{"name": "run", "arguments": [1]}</tool_call>`, `"arguments": expected one object`},
		{Hermes, `<tool_call>{"name": "run", "arguments": {"code": "1"}}</tool_call><tool_call>{"name": "run", "arguments": {"co`,
			Said{Calls: []chat.ToolCall{run}}, `<tool_call>{"name": "run", "arguments": {"co`,
			"expected a JSON object, and read unexpected end of JSON input"},
		{Hermes, `<tool_call>{"name": "run", "arguments": {"a": 1}, "arguments": {}}</tool_call>` +
			`<tool_call>{"name": "run", "arguments": {"code": "1"}}</tool_call>`, Said{Calls: []chat.ToolCall{run}},
			`<tool_call>{"name": "run", "arguments": {"a": 1}, "arguments": {`,
			"expected a JSON object, and read unexpected end of JSON input"},
		{Llama, `{"name": "run", "parameters": {"code": "1"}}`, Said{Calls: []chat.ToolCall{run}}, "", ""},
		{Llama, `{"city": "Paris"}`, Said{Content: `{"city": "Paris"}`}, "", ""},
		{Llama, `<|python_tag|>print(1)`, Said{Content: `<|python_tag|>print(1)`}, `<|python_tag|>print(1)`,
			"expected a JSON object, and read invalid character 'p' looking for beginning of value"},
	} {
		said, err := c.notation.Read(c.text, false)
		require.Equal(t, c.want.Content, said.Content, c.text)
		require.Equal(t, c.want.Thoughts, said.Thoughts, c.text)
		require.Len(t, said.Calls, len(c.want.Calls), c.text)
		for i := range said.Calls {
			require.Equal(t, c.want.Calls[i], said.Calls[i])
		}
		if c.call == "" {
			require.NoError(t, err, c.text)
			continue
		}
		var m *Malformed
		require.ErrorAs(t, err, &m, c.text)
		require.Equal(t, Malformed{c.call, c.said}, *m)
		require.EqualError(t, err, "a tool call that cannot be read: "+c.said)
	}
}

// The text of a turn is that of its tokens, in which only the notation's own control tokens are shown.
func TestTextsOfTurns(t *testing.T) {
	tok, err := tokenizer.Load(filepath.Join("..", "..", "tokenizer", "testdata", "small"))
	require.NoError(t, err)
	end, _ := tok.TokenID("<|im_end|>")
	think, known := tok.TokenID(ThinkOpen)
	require.True(t, known)
	tokens := append(append([]int32{think}, tok.Encode("hm 日本</think>")...), end)
	require.Equal(t, "<think>hm 日本</think>", thinker.Text(tok, tokens))
	require.Equal(t, "\uFFFD", thinker.Text(tok, tok.Encode("日")[:1]), "half a character")
}
