package calls

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// joined are the joined parts that a reader returned.
type joined struct {
	Thoughts, Content string
	Calls             [][2]string
}

func readAll(n Notation, thinking bool, pieces ...string) joined {
	return collectParts(NewReader(n, thinking), (*Reader).End, pieces...)
}

// collectParts joins the parts that a reader returns for a text, and at its end.
func collectParts(r *Reader, end func(*Reader) []Part, pieces ...string) (h joined) {
	take := func(parts []Part) {
		for _, p := range parts {
			h.Thoughts += p.Thoughts
			h.Content += p.Content
			if p.IsCall && p.Call == len(h.Calls) {
				h.Calls = append(h.Calls, [2]string{p.Name})
			}
			if p.IsCall {
				h.Calls[p.Call][1] += p.Arguments
			}
		}
	}
	for _, piece := range pieces {
		take(r.Push(piece))
	}
	take(end(r))
	return h
}

func calls(nameThenArguments ...string) (list [][2]string) {
	for i := 0; i < len(nameThenArguments); i += 2 {
		list = append(list, [2]string{nameThenArguments[i], nameThenArguments[i+1]})
	}
	return list
}

var thinker = func() Notation { n := Hermes; n.Thinks = true; return n }()

var thinkingLlama = func() Notation { n := Llama; n.Thinks = true; return n }()

var notationCases = []struct {
	name     string
	notation Notation
	thinking bool
	text     string
	want     joined
}{
	{"content", Notation{}, false, " <think>a <tool_call>\n", joined{Content: " <think>a <tool_call>\n"}},
	{"one who has thought thinks no more", thinkingLlama, true, "a</think><think>b", joined{Thoughts: "a", Content: "<think>b"}},
	{"content with tools", Hermes, false, "one\n\ntwo <tool\n", joined{Content: "one\n\ntwo <tool\n"}},
	{"a call", Hermes, false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, {\"y\": \"}\\\"\"}]}}\n</tool_call>",
		joined{Calls: calls("f", `{"x": [1, {"y": "}\""}]}`)}},
	{"words and two calls", Hermes, false, "Let me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n" +
		"{\"arguments\":{\"a\":1},\"name\":\"g\"}\n</tool_call>\n", joined{Content: "Let me see.", Calls: calls("f", "{}", "g", `{"a":1}`)}},
	{"no arguments", Hermes, false, `<tool_call>{"name": "f"}</tool_call>`, joined{Calls: calls("f", "{}")}},
	{"null", Hermes, false, `<tool_call>{"arguments": null, "name": "f"}</tool_call>`, joined{Calls: calls("f", "{}")}},
	{"arguments in a string", Hermes, false, `<tool_call>{"name": "f", "arguments": "{\"a\": 1}", "id": 7}</tool_call> so`,
		joined{Content: " so", Calls: calls("f", `{"a": 1}`)}},
	{"a string that holds no arguments", Hermes, false, `<tool_call>{"name": "f", "arguments": "a: 1"}</tool_call>`,
		joined{Content: `<tool_call>{"name": "f", "arguments": "a: 1"}</tool_call>`}},
	{"no call", Hermes, false, "a <tool_call>oops</tool_call> b", joined{Content: "a <tool_call>oops</tool_call> b"}},
	{"no name", Hermes, false, `<tool_call>{"arguments": {}}</tool_call>`, joined{Content: `<tool_call>{"arguments": {}}</tool_call>`}},
	{"a list of arguments", Hermes, false, `<tool_call>{"name": "f", "arguments": [1]}`,
		joined{Content: `<tool_call>{"name": "f", "arguments": [1]}`}},
	{"cut before the arguments", Hermes, false, `x <tool_call>{"name": "f", "argum`, joined{Content: `x <tool_call>{"name": "f", "argum`}},
	{"cut within the arguments", Hermes, false, `<tool_call>{"name": "f", "arguments": {"x": "ab`, joined{Calls: calls("f", `{"x": "ab`)}},
	{"twice", Hermes, false,
		`<tool_call>{"name": "f", "arguments": {"x": 1}, "arguments": {}}</tool_call>`,
		joined{Calls: calls("f", `{"x": 1}`)}},
	{"no value", Hermes, false, `<tool_call>{"a":"0", "arguments":,`, joined{Content: `<tool_call>{"a":"0", "arguments":,`}},
	{"thoughts", thinker, false, "<think>\nhm <b>\n\nso\n</think>\n\nyes\n", joined{Thoughts: "hm <b>\n\nso", Content: "yes\n"}},
	{"empty thoughts", thinker, false, "<think>\n\n</think>\n\nyes", joined{Content: "yes"}},
	{"thoughts of the prompt", thinker, true, "hm</think>\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
		joined{Thoughts: "hm", Calls: calls("f", "{}")}},
	{"thoughts without an end", thinker, true, "\nhm\n</thin", joined{Thoughts: "hm\n</thin"}},
	{"thoughts later", thinker, false, "a <think>b</think>", joined{Content: "a <think>b</think>"}},
	{"nearly thoughts", thinker, false, "\n<thin", joined{Content: "\n<thin"}},
	{"llama", Llama, false, `{"name": "f", "parameters": {"x": 1}}`, joined{Calls: calls("f", `{"x": 1}`)}},
	{"llama twice", Llama, false, `{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"y": {}}}`,
		joined{Calls: calls("f", "{}", "g", `{"y": {}}`)}},
	{"llama with its tag", Llama, false, "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}",
		joined{Calls: calls("f", "{}")}},
	{"llama's own code", Llama, false, "<|python_tag|>print(1)", joined{Content: "<|python_tag|>print(1)"}},
	{"llama talks", Llama, false, "a {\"name\": \"f\"}", joined{Content: "a {\"name\": \"f\"}"}},
	{"llama writes JSON", Llama, false, `{"city": "Paris", "n": 2}`, joined{Content: `{"city": "Paris", "n": 2}`}},
	{"llama goes on", Llama, false, `{"name": "f", "parameters": {}} done`, joined{Content: "done", Calls: calls("f", "{}")}},
	{"mistral", Mistral, false,
		"Well.\n[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": [1]}, \"id\": \"abcdefghi\"}, {\"name\":\"g\"}]\nso",
		joined{Content: "Well.so", Calls: calls("f", `{"x": [1]}`, "g", "{}")}},
	{"mistral calls nothing", Mistral, false, "[TOOL_CALLS][]", joined{Content: "[TOOL_CALLS][]"}},
	{"mistral without a list", Mistral, false, `[TOOL_CALLS]{"name": "f", "arguments": {}}`, joined{Calls: calls("f", "{}")}},
	{"mistral in two lists", Mistral, false, `[TOOL_CALLS][[{"name": "f"}]`, joined{Content: `[TOOL_CALLS][[{"name": "f"}]`}},
	{"mistral is cut", Mistral, false, `[TOOL_CALLS][{"name": "f", "arguments": {"x": "a`, joined{Calls: calls("f", `{"x": "a`)}},
	{"mistral goes on", Mistral, false, `[TOOL_CALLS][{"name": "f"} and`, joined{Content: "and", Calls: calls("f", "{}")}},
	{"mistral by name", MistralNamed, false, "So.\n[TOOL_CALLS]f[ARGS]{\"x\": [1, \"}\"]}[TOOL_CALLS]g-2[CALL_ID]abc123XYZ[ARGS]{}",
		joined{Content: "So.", Calls: calls("f", `{"x": [1, "}"]}`, "g-2", "{}")}},
	{"mistral by name, in a list's notation", Mistral, false, "[TOOL_CALLS] f [ARGS]{}", joined{Content: "[TOOL_CALLS] f [ARGS]{}"}},
	{"mistral by name with blanks", Mistral, false, "[TOOL_CALLS] f[ARGS] {\"a\":1}\nso", joined{Content: "so", Calls: calls("f", `{"a":1}`)}},
	{"mistral's list, by those who write names", MistralNamed, false, `[TOOL_CALLS][{"name": "f"}, {"name": "g"}]`,
		joined{Calls: calls("f", "{}", "g", "{}")}},
	{"mistral names and is cut", MistralNamed, false, `[TOOL_CALLS]f[ARGS]{"x": "a`, joined{Calls: calls("f", `{"x": "a`)}},
	{"mistral is cut in a name", MistralNamed, false, `hm [TOOL_CALLS]f[AR`, joined{Content: `hm [TOOL_CALLS]f[AR`}},
	{"mistral names no arguments", MistralNamed, false, `[TOOL_CALLS]f[ARGS][1]`, joined{Content: `[TOOL_CALLS]f[ARGS][1]`}},
	{"mistral names nothing", MistralNamed, false, `[TOOL_CALLS][ARGS]{}`, joined{Content: `[TOOL_CALLS][ARGS]{}`}},
	{"mistral's arguments in a string", MistralNamed, false, `[TOOL_CALLS]f[ARGS]"{\"a\": 1}" x`,
		joined{Content: " x", Calls: calls("f", `{"a": 1}`)}},
	{"mistral talks of a tag", MistralNamed, false, "[TOOL_CALLS]oops, no", joined{Content: "[TOOL_CALLS]oops, no"}},
	{"llama says nothing", Llama, false, " \n", joined{Content: " \n"}},
}

// The parts do not depend on how the text is split.
func TestNotation(t *testing.T) {
	for _, c := range notationCases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, readAll(c.notation, c.thinking, c.text), "whole")
			require.Equal(t, c.want, readAll(c.notation, c.thinking, strings.Split(c.text, "")...), "letter by letter")
			for at := range c.text {
				require.Equal(t, c.want, readAll(c.notation, c.thinking, c.text[:at], c.text[at:]), "cut at %d", at)
			}
		})
	}
}

// Arguments are returned while they are written.
func TestArgumentsAreStreamed(t *testing.T) {
	r := NewReader(Hermes, false)
	require.Empty(t, r.Push(`hi<tool_call>{"name": "f", "argu`)[1:])
	require.Equal(t, []Part{{Name: "f", Arguments: `{"x`, IsCall: true}}, r.Push(`ments": {"x`))
	require.Equal(t, []Part{{Arguments: `": 1`, IsCall: true}}, r.Push(`": 1`))
	require.Equal(t, []Part{{Arguments: "}", IsCall: true}}, r.Push("}}</tool_call>"))
	require.Empty(t, r.End())
}

// No output of a model stops the reader, and without a call nothing is lost but line ends and tags.
func FuzzNotation(f *testing.F) {
	for _, c := range notationCases {
		f.Add(c.text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		for _, n := range []Notation{{}, Hermes, thinker, Llama, thinkingLlama, Mistral, MistralNamed} {
			at := min(int(cut), len(text))
			whole := readAll(n, false, text)
			require.Equal(t, whole, readAll(n, false, text[:at], text[at:]))
			said, err := n.Read(text, false)
			require.LessOrEqual(t, len(said.Calls), len(whole.Calls))
			require.True(t, err != nil || len(said.Calls) == len(whole.Calls), "a call is there, or an error")
			for _, call := range said.Calls {
				require.True(t, call.Name != "" && json.Valid(call.Arguments), "%s", call.Arguments)
			}
			if len(whole.Calls) == 0 && !n.Thinks {
				require.Equal(t, text, whole.Content)
			}
		}
	})
}
