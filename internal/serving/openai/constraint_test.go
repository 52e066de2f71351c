package openai

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/chat/calls"
	"github.com/seed-7879b91d/grpo/sampler"
)

// fits reports whether a constraint accepts a text as a whole.
func fits(s *script, c sampler.Constraint, text string) bool {
	mask := make([]uint32, (s.Language.Rows+31)/32)
	for _, id := range append(s.Language.Tokenizer.EncodeSpecial(text), s.Language.Stops[0]) {
		c.Allow(mask)
		if mask[id/32]>>(id%32)&1 == 0 {
			return false
		}
		c.Accept(id)
	}
	return true
}

// An answer follows the requested format.
func TestShapes(t *testing.T) {
	const (
		schema = `{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}`
		g      = `{"type":"function","function":{"name":"g","strict":true}}`
		callF  = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>"
		callG  = "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
	)
	for name, c := range map[string]struct {
		fields  string
		yes, no []string
	}{
		"nothing": {`"response_format":{"type":"text"}`, nil, nil},
		"object":  {`"response_format":{"type":"json_object"}`, []string{`{"a":[1]}`, "{}"}, []string{"a", "[]", `{"a":`}},
		"schema": {`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`,
			[]string{`{"x":12}`, `{"x":-1}`}, []string{"{}", `{"x":"1"}`, `{"x":1,"y":2}`, "hi"}},
		"required": {`"tool_choice":"required","tools":[` + aTool + `,` + g + `]`, []string{callF, callG, callF + "\n" + callG},
			[]string{"hi", "", "hi " + callG}},
		"required once": {`"tool_choice":"required","parallel_tool_calls":false,"tools":[` + aTool + `,` + g + `]`, []string{callF, callG},
			[]string{callF + "\n" + callG}},
		"named": {`"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[` + aTool + `,` + g + `]`, []string{callG},
			[]string{callF, callG + "\n" + callG, ""}},
		"strict": {`"tools":[` + g + `]`, []string{callG, "hi", "", "hi " + callG + " so"}, []string{callF}},
		"strict and loose": {`"tools":[` + g + `,` + aTool + `]`, []string{callG, callF, "hi"},
			[]string{"<tool_call>\n{\"name\": \"g\", \"arguments\": [1]}\n</tool_call>"}},
		"auto and a document": {`"tools":[` + g + `],"response_format":{"type":"json_object"}`, []string{"{}"}, []string{callG}},
		"no type": {`"tool_choice":"required","tools":[{"type":"function","function":{"name":"g","parameters":{}}}]`, []string{callG},
			[]string{"<tool_call>\n{\"name\": \"g\", \"arguments\": [1]}\n</tool_call>"}},
		"loose": {`"tools":[` + aTool + `]`, nil, nil},
		"none":  {`"tool_choice":"none","tools":[` + g + `]`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted(t, "a")
			ask(t, New(s, Options{}), c.fields)
			r := s.asked[0]
			if c.yes == nil {
				require.Nil(t, r.Constrain)
				return
			}
			for _, text := range slices.Concat(c.yes, c.no) {
				require.Equal(t, slices.Contains(c.yes, text), fits(s, r.Constrain(), text), "%s", text)
			}
		})
	}
}

// Mistral's models write their calls as a list, and use other names for calls.
func TestShapesOfMistral(t *testing.T) {
	const callF, callG = `{"name": "f", "arguments": {"x":1}}`, `{"name": "g", "arguments": {}}`
	s := scripted(t, "a")
	tools := []tool{{name: "f", parameters: []byte(`{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false}`)},
		{name: "g", parameters: noParameters}}
	for _, c := range []struct {
		notation calls.Notation
		shape    shape
		yes, no  []string
	}{
		{calls.MistralNamed, shape{tools: tools}, []string{`[TOOL_CALLS]f[ARGS]{"x":1}`, `[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]f[ARGS]{}`},
			[]string{"", "hi", `[TOOL_CALLS]h[ARGS]{}`, `[TOOL_CALLS]g[ARGS]{"x":1}`, "[TOOL_CALLS][" + callG + "]"}},
		{calls.MistralNamed, shape{tools: tools, once: true}, []string{`[TOOL_CALLS]g[ARGS]{}`},
			[]string{`[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]f[ARGS]{}`}},
		{calls.MistralNamed, shape{tools: tools, words: true}, []string{"hi", `hi [TOOL_CALLS]g[ARGS]{}`}, []string{"[TOOL_CALLS]7"}},
		{calls.Mistral, shape{tools: tools}, []string{"[TOOL_CALLS][" + callF + "]", "[TOOL_CALLS][" + callG + ", " + callF + "]"},
			[]string{"", "hi", "[TOOL_CALLS][]"}},
		{calls.Mistral, shape{tools: tools, once: true}, []string{"[TOOL_CALLS][" + callG + "]"},
			[]string{"[TOOL_CALLS][" + callG + ", " + callF + "]"}},
		{calls.Mistral, shape{tools: tools, words: true}, []string{"hi", "hi [TOOL_CALLS][" + callF + "]"}, []string{"[TOOL_CALLS][7]"}},
	} {
		open, err := s.Language.constraint(c.shape, c.notation, false)
		require.NoError(t, err)
		for _, text := range slices.Concat(c.yes, c.no) {
			require.Equal(t, slices.Contains(c.yes, text), fits(s, open(), text), "%s", text)
		}
	}
}

// A format that cannot be enforced is refused before anything is drawn.
func TestShapesThatCannotBe(t *testing.T) {
	s := scripted(t, "a")
	h := New(s, Options{})
	for fields, want := range map[string]string{
		`"response_format":{"type":"xml"}`:         `response_format: found \"xml\"`,
		`"response_format":{"type":"json_schema"}`: "json_schema without a schema",
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","patternProperties":{}}}}`: "patternProperties",
		`"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"thing"}}}`:                         "response_format: ",
		`"tool_choice":"required"`: "tool_choice: found", `"tool_choice":"always"`: "without tools",
		`"tools":[` + aTool + `],"tool_choice":{"type":"function","function":{"name":"q"}}`:         `found \"q\", which is not among`,
		`"tools":[` + aTool + `],"tool_choice":7`:                                                   "tool_choice: found 7, expected",
		`"tools":[` + aTool + `],"tool_choice":"required","response_format":{"type":"json_object"}`: "a call, response_format for a",
		`"tools":[` + aTool + `],"tool_choice":{"type":"function","function":{"name":"f"}},"response_format":{"type":"json_schema",` +
			`"json_schema":{"schema":{}}}`: "a call, response_format for a",
	} {
		status, text := post(t, h, "/v1/chat/completions", with(fields))
		require.Equal(t, http.StatusBadRequest, status, fields)
		require.Contains(t, text, want, fields)
	}
	require.Empty(t, s.asked)
}
