package dataset

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/match"
)

// TestAnswers: a row may expect an answer in words instead of a program.
func TestAnswers(t *testing.T) {
	for _, c := range []struct{ row, want string }{
		{`{"prompt":"x","match":"math","answer":"It is 8*9=<<8*9=72>>72.\n#### 72"}`,
			`"match":"math","tests":[{"math":"72"}]`},
		{`{"prompt":"x","match":"math","answer":0.5}`,
			`"match":"math","tests":[{"math":"0.5"}]`},
		{`{"prompt":"x","match":"exact","answer":"#### Paris"}`,
			`"match":"exact","tests":[{"exact":"#### Paris"}]`},
		{`{"prompt":"x","match":"json_schema","answer":{"type":"array"}}`,
			`"match":"json_schema","tests":[{"json_schema":{"type":"array"}}]`},
		{`{"prompt":"x","match":"json_schema","answer":"{\"type\":\"array\"}"}`,
			`"match":"json_schema","tests":[{"json_schema":{"type":"array"}}]`},
		{`{"prompt":"x","kind":"answer","tests":[{"regex":"^a"},{"regex":"b$","public":true}]}`,
			`"match":"regex","tests":[{"regex":"^a"},{"regex":"b$","public":true}]`},
		{`{"prompt":"x","match":"math","kind":"answer","answer":"no","tests":"[{\"math\":\"\\\\pi\"}]"}`,
			`"match":"math","tests":[{"math":"\\pi"}]`},
	} {
		n, err := normaliseLine(c.row)
		require.NoError(t, err, c.row)
		var whole bytes.Buffer
		n.writeTo(&whole)
		require.Contains(t, whole.String(), `"kind":"answer",`+c.want+"}", c.row)
		again, err := normaliseLine(whole.String())
		require.NoError(t, err, c.row)
		require.Equal(t, n.tests, again.tests)
		require.Equal(t, string(n.light), string(again.light))
	}
	r := &row{line: []byte(`{"prompt":"x","answer":"7"}`), answers: match.Math}
	n, err := normalise(r)
	require.NoError(t, err)
	require.Equal(t, `[{"math":"7"}]`, string(n.tests))
}

// TestOtherAnswers: other collections use these names beside the tests of programs; they are ignored there.
func TestOtherAnswers(t *testing.T) {
	const tests = `"tests":[{"stdin":"","stdout":"1"}]`
	r := &row{source: "src", line: []byte(`{"id":"a","prompt":"x","answer":{"a":1},"match":[2],` + tests + `}`), answers: match.Math}
	n, err := normalise(r)
	require.NoError(t, err)
	plain, err := normaliseLine(`{"id":"a","prompt":"x",` + tests + `}`)
	require.NoError(t, err)
	require.Equal(t, string(plain.light), string(n.light))
	require.ElementsMatch(t, []string{"answer", "match"}, r.others)
}

// refusedAnswers are rows of TestRefusals.
var refusedAnswers = []struct {
	name, row string
	reason    Reason
	says      string
}{
	{"answer without match", `{"prompt":"x","answer":"1"}`, NoTests, `"answer": the row does not say how to compare it`},
	{"match without answer", `{"prompt":"x","match":"math"}`, NoTests, `"match": found "math", but the row has neither "answer"`},
	{"unknown match", `{"prompt":"x","match":"fuzzy","answer":"1"}`, BadField, `"match": found "fuzzy", expected exact, regex`},
	{"unknown match beside tests", `{"prompt":"x","match":"fuzzy","tests":[{"math":"1"}]}`, BadField,
		`"match": found "fuzzy", expected exact`},
	{"blank answer", `{"prompt":"x","match":"exact","answer":" "}`, NoTests, `the row has neither "answer" nor tests`},
	{"answer is a list", `{"prompt":"x","match":"math","answer":[1]}`, BadField,
		`"answer": found a list, expected a string or a number`},
	{"bad pattern", `{"prompt":"x","tests":[{"regex":"a"},{"regex":"("}]}`, BadExpected, "tests[1]: regex: error parsing regexp"},
	{"bad schema", `{"prompt":"x","match":"json_schema","answer":{"type":"lots"}}`, BadExpected, "tests[0]: json_schema: "},
	{"schema that is no JSON", `{"prompt":"x","match":"json_schema","answer":"{"}`, BadExpected,
		`"answer": found "{", expected a JSON schema`},
	{"schema of elsewhere", `{"prompt":"x","tests":[{"json_schema":{"$ref":"http://x/y"}}]}`, BadExpected, "json_schema: "},
	{"blank pattern", `{"prompt":"x","tests":[{"regex":""}]}`, BadExpected, `tests[0]: "regex": found blank text`},
	{"blank words", `{"prompt":"x","tests":[{"exact":" \n"}]}`, BadExpected, `tests[0]: "exact": found blank text`},
	{"two ways", `{"prompt":"x","tests":[{"regex":"a","exact":"a"}]}`, BadTests, `tests[0]: expected only one of "exact"`},
	{"words and a program", `{"prompt":"x","tests":[{"exact":"a","stdin":"","stdout":"a"}]}`, BadTests,
		`no keys of programs beside it`},
	{"words and input", `{"prompt":"x","tests":[{"exact":"a","input":"","output":"a"}]}`, BadTests,
		`no keys of programs beside it`},
	{"words in one, a program in another", `{"prompt":"x","tests":[{"exact":"a"},{"stdin":"","stdout":"a"}]}`, MixedKinds,
		"tests[1] is of kind stdin, tests[0] of kind answer"},
	{"several ways", `{"prompt":"x","tests":[{"exact":"a"},{"regex":"a"}]}`, MixedKinds, "tests[1] is matched by regex, tests[0] by exact"},
	{"match of other tests", `{"prompt":"x","match":"math","tests":[{"exact":"a"}]}`, BadTests,
		`"match" says math, but the tests are matched by exact`},
	{"limit of an answer", `{"prompt":"x","tests":[{"exact":"a","time_limit_ms":5}]}`, BadField, `found a limit of time or memory`},
	{"checker of an answer", `{"prompt":"x","checker":"x","tests":[{"exact":"a"}]}`, BadField,
		`"checker" is for programs`},
	{"kind of an answer", `{"prompt":"x","kind":"stdin","tests":[{"exact":"a"}]}`, BadTests,
		`"kind" says stdin, but the tests are of kind answer`},
}
