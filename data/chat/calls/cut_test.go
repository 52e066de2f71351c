package calls

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cutOff is what a reader parses from a truncated text.
func cutOff(n Notation, pieces ...string) heard {
	return hear(NewReader(n, false), (*Reader).Cut, pieces...)
}

// A truncated call is not content: it is returned as far as it came, or not at all, however the text was split.
func TestACallThatIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name     string
		notation Notation
		text     string
		want     heard
	}{
		{"in its tag", Hermes, "Well.\n<tool_c", heard{Content: "Well."}},
		{"after its tag", Hermes, "Well.\n<tool_call>", heard{Content: "Well."}},
		{"in its name", Hermes, `x <tool_call>{"name": "f`, heard{Content: "x"}},
		{"after its name", Hermes, `x <tool_call>{"name": "f", "argum`, heard{Content: "x", Calls: calls("f", "")}},
		{"before its name", Hermes, `<tool_call>{"arguments": {"x": 1`, heard{}},
		{"in its arguments", Hermes, `<tool_call>{"name": "f", "arguments": {"x": "ab`, heard{Calls: calls("f", `{"x": "ab`)}},
		{"the second", Hermes, `<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g",`, heard{Calls: calls("f", "{}", "g", "")}},
		{"none", Hermes, "x <", heard{Content: "x <"}},
		{"none, of a tag", Hermes, "<tool_call>oops", heard{Content: "<tool_call>oops"}},
		{"llama's with a tag", Llama, `<|python_tag|>{"name": "f", "par`, heard{Calls: calls("f", "")}},
		{"what may be a document", Llama, `{"name": "f", "par`, heard{Content: `{"name": "f", "par`}},
		{"llama's second", Llama, `{"name": "f"}; {"na`, heard{Calls: calls("f", "{}")}},
		{"mistral's name", MistralNamed, "hm [TOOL_CALLS]f[AR", heard{Content: "hm"}},
		{"mistral's arguments", MistralNamed, "[TOOL_CALLS]f[ARGS]", heard{Calls: calls("f", "")}},
		{"no tools", Notation{}, "x <tool_call>{", heard{Content: "x <tool_call>{"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, cutOff(c.notation, c.text), "whole")
			require.Equal(t, c.want, cutOff(c.notation, strings.Split(c.text, "")...), "letter by letter")
		})
	}
}
