package calls

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readTruncated is what a reader parses from a truncated text.
func readTruncated(n Notation, pieces ...string) joined {
	return collectParts(NewReader(n, false), (*Reader).Cut, pieces...)
}

// A truncated call is not content: it is returned as far as it came, or not at all, however the text was split.
func TestACallThatIsCutOff(t *testing.T) {
	for _, c := range []struct {
		name     string
		notation Notation
		text     string
		want     joined
	}{
		{"in its tag", Hermes, "Well.\n<tool_c", joined{Content: "Well."}},
		{"after its tag", Hermes, "Well.\n<tool_call>", joined{Content: "Well."}},
		{"in its name", Hermes, `x <tool_call>{"name": "f`, joined{Content: "x"}},
		{"after its name", Hermes, `x <tool_call>{"name": "f", "argum`, joined{Content: "x", Calls: calls("f", "")}},
		{"before its name", Hermes, `<tool_call>{"arguments": {"x": 1`, joined{}},
		{"in its arguments", Hermes, `<tool_call>{"name": "f", "arguments": {"x": "ab`, joined{Calls: calls("f", `{"x": "ab`)}},
		{"the second", Hermes, `<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g",`, joined{Calls: calls("f", "{}", "g", "")}},
		{"none", Hermes, "x <", joined{Content: "x <"}},
		{"none, of a tag", Hermes, "<tool_call>oops", joined{Content: "<tool_call>oops"}},
		{"llama's with a tag", Llama, `<|python_tag|>{"name": "f", "par`, joined{Calls: calls("f", "")}},
		{"what may be a document", Llama, `{"name": "f", "par`, joined{Content: `{"name": "f", "par`}},
		{"llama's second", Llama, `{"name": "f"}; {"na`, joined{Calls: calls("f", "{}")}},
		{"mistral's name", MistralNamed, "hm [TOOL_CALLS]f[AR", joined{Content: "hm"}},
		{"mistral's arguments", MistralNamed, "[TOOL_CALLS]f[ARGS]", joined{Calls: calls("f", "")}},
		{"no tools", Notation{}, "x <tool_call>{", joined{Content: "x <tool_call>{"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, readTruncated(c.notation, c.text), "whole")
			require.Equal(t, c.want, readTruncated(c.notation, strings.Split(c.text, "")...), "letter by letter")
		})
	}
}
