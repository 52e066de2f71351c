package lesson

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
)

// record is a row with this JSON.
func record(t *testing.T, text string) dataset.Record {
	t.Helper()
	r := dataset.Record{Where: "f:1"}
	require.NoError(t, json.Unmarshal([]byte(text), &r.Cells))
	for name, cell := range r.Cells {
		if string(cell) == "null" {
			delete(r.Cells, name)
		}
	}
	return r
}

func encoder(t *testing.T, renderer string) *Encoder {
	t.Helper()
	tok, err := tokenizer.Load("../tokenizer/testdata/small")
	require.NoError(t, err)
	r, err := chat.New(renderer, tok)
	require.NoError(t, err)
	return &Encoder{Renderer: r, Tokenizer: tok, Most: 1 << 20}
}

// markedSequences are the sequences of a row, with the trained parts between « and ».
func markedSequences(t *testing.T, e *Encoder, text string) (all []string, cut bool) {
	t.Helper()
	c, err := ReadConversation(record(t, text))
	require.NoError(t, err)
	sequences, cut, err := e.Sequences(c)
	require.NoError(t, err)
	for _, s := range sequences {
		line, at := "", 0
		for _, span := range s.Spans {
			line += e.Tokenizer.Decode(s.Tokens[at:span[0]], false) + "«" + e.Tokenizer.Decode(s.Tokens[span[0]:span[1]], false) + "»"
			at = span[1]
		}
		all = append(all, line+e.Tokenizer.Decode(s.Tokens[at:], false))
	}
	return all, cut
}

const twoTurns = `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
	{"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "name": null}]}`

// The assistant's text and the end of its turn are trained, and nothing else: of every turn, or of the last.
func TestSpans(t *testing.T) {
	e := encoder(t, "qwen3_instruct")
	const first = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
	const second = "\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
	all, _ := markedSequences(t, e, twoTurns)
	require.Equal(t, []string{first + "«b<|im_end|>»" + second + "«d<|im_end|>»"}, all)
	e.LastTurn = true
	all, _ = markedSequences(t, e, twoTurns)
	require.Equal(t, []string{first + "b<|im_end|>" + second + "«d<|im_end|>»"}, all)
	all, _ = markedSequences(t, e, `{"prompt": "a", "completion": "b"}`)
	require.Equal(t, []string{first + "«b<|im_end|>»"}, all)
	all, _ = markedSequences(t, e, `{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
		{"role": "user", "content": "c"}],
		"answer": "d"}`)
	require.Equal(t, []string{first + "b<|im_end|>" + second + "«d<|im_end|>»"}, all, "the prompt is not trained")
}

// If a chat format drops old thoughts, each turn is trained as it was when it was the last.
func TestTurnsThatAreRewritten(t *testing.T) {
	all, _ := markedSequences(t, encoder(t, "qwen3"), `{"messages": [{"role": "user", "content": "a"},
		{"role": "assistant", "content": "b", "reasoning_content": "x"}, {"role": "user", "content": "c"},
		{"role": "assistant", "content": "d", "reasoning_content": "y"}]}`)
	require.Len(t, all, 2)
	require.Contains(t, all[0], "«<think>\nx\n</think>\n\nb<|im_end|>»")
	require.NotContains(t, all[1], "x")
	require.Contains(t, all[1], "«<think>\ny\n</think>\n\nd<|im_end|>»")
}

// If the first token of a turn would merge with the end of the prompt, the turn is tokenized separately, as the model would generate it.
func TestTurnsBeginWithATokenOfTheirOwn(t *testing.T) {
	e := encoder(t, "qwen3_instruct")
	c, err := ReadConversation(record(t, `{"prompt": "a", "completion": "\n\n\nb"}`))
	require.NoError(t, err)
	sequences, _, err := e.Sequences(c)
	require.NoError(t, err)
	asked, _, err := e.Renderer.Prompt(c.Messages[:1])
	require.NoError(t, err)
	require.Equal(t, asked, sequences[0].Tokens[:len(asked)])
	require.Equal(t, [][2]int{{len(asked), len(sequences[0].Tokens)}}, sequences[0].Spans)
	require.Equal(t, "\n\n\nb<|im_end|>", e.Tokenizer.Decode(sequences[0].Tokens[len(asked):], false))
}

// Tools are declared, and calls of them are trained.
func TestTools(t *testing.T) {
	for _, tools := range []string{`[{"type": "function", "function": {"name": "f", "parameters": {}}}]`,
		`"[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}]"`} {
		all, _ := markedSequences(t, encoder(t, "qwen3_instruct"), `{"tools": `+tools+`, "messages": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
			{"role": "tool", "content": "2"}, {"role": "assistant", "content": "d"}]}`)
		require.Len(t, all, 1)
		require.Regexp(t, `(?s)"name": "f".*«<tool_call>.*</tool_call><\|im_end\|>».*2.*«d<\|im_end\|>»`, all[0])
		require.NotRegexp(t, `«[^»]*tool_response`, all[0])
	}
}

// A row that is too long is truncated, and reported so; one with nothing left to train is left out.
func TestCut(t *testing.T) {
	e := encoder(t, "qwen3_instruct")
	whole, cut := markedSequences(t, e, twoTurns)
	require.False(t, cut)
	c, err := ReadConversation(record(t, twoTurns))
	require.NoError(t, err)
	sequences, _, err := e.Sequences(c)
	require.NoError(t, err)
	end := sequences[0].Spans[0][1]
	e.Most = end
	short, cut := markedSequences(t, e, twoTurns)
	require.True(t, cut)
	require.True(t, strings.HasPrefix(whole[0], short[0]) && strings.HasSuffix(short[0], "»"))
	e.Most = sequences[0].Spans[0][0]
	none, cut := markedSequences(t, e, twoTurns)
	require.True(t, cut)
	require.Empty(t, none)
}

// A preference has a prompt, or the common prefix of both sides is the prompt.
func TestPreferences(t *testing.T) {
	for _, text := range []string{
		`{"prompt": "a", "chosen": "b", "rejected": "c"}`,
		`{"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "assistant", "content": "b"}], "rejected": "c"}`,
		`{"prompt": "a", "chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "rejected": "c"}`,
		`{"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
		  "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]}`,
	} {
		p, err := ReadPreference(record(t, text))
		require.NoError(t, err, text)
		for side, c := range map[string]Conversation{"b": p.Chosen, "c": p.Rejected} {
			require.Equal(t, 1, c.Given, text)
			require.Equal(t, []chat.Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: side}}, c.Messages, text)
		}
	}
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{"text": "a"}`:                                         "f:1: found the columns text; expected messages, or prompt with completion",
		`{"messages": "hello"}`:                                 `f:1: messages: found "hello"; expected a list of {"role"`,
		`{"messages": [{"content": "a"}]}`:                      "f:1: messages: message 1 has no role; expected system, user, assistant or tool",
		`{"messages": [{"role": "user"}]}`:                      "f:1: messages: no message of the assistant to learn",
		`{"messages":[{"role":"u"},{"role":"u"},{"role":"b"}]}`: "to learn from; found messages of u, b",
		`{"prompt": 1, "completion": "a"}`:                      `f:1: prompt: found 1; expected a text, or a list of {"role"`,
		`{"messages": [{"role": "user", "weight": 1}]}`:         `f:1: messages: json: unknown field "weight"`,
		`{"messages": [{"role": "assistant", "content": "a"}]}`: "f:1: messages: it begins with the assistant; expected another message before",
		`{"messages": [{"role": 1}]}`:                           `f:1: messages: field "role": found a JSON number, expected a text; expected a`,
		`{"messages": ["x"]}`:                                   "f:1: messages: found a JSON string, expected an object; expected a list of",
		`{"completion": "a"}`:                                   "f:1: found the columns completion; expected a prompt",
	} {
		_, err := ReadConversation(record(t, text))
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		`{"prompt": "a", "chosen": "b"}`:                  "f:1: found the columns chosen, prompt; expected prompt, chosen and rejected",
		`{"prompt": "a", "chosen": "b", "rejected": "b"}`: "f:1: chosen and rejected are the same",
		`{"chosen": "b", "rejected": "c"}`:                "f:1: there is no prompt, and chosen and rejected begin with no message in common",
	} {
		_, err := ReadPreference(record(t, text))
		require.ErrorContains(t, err, want, text)
	}
	c, err := ReadConversation(record(t, `{"messages": [{"role": "user", "content": ["a"]}, {"role": "assistant", "content": "b"}]}`))
	require.NoError(t, err)
	_, _, err = encoder(t, "qwen3").Sequences(c)
	require.ErrorContains(t, err, "f:1: messages 0 to 1: message 0: content: found JSON",
		"messages are counted from 0 everywhere in the error")
	c, err = ReadConversation(record(t, `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ["b"]}]}`))
	require.NoError(t, err)
	_, _, err = encoder(t, "qwen3").Sequences(c)
	require.ErrorContains(t, err, "f:1: messages 0 to 1: message 1: content: found JSON")
}
