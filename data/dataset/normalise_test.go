package dataset

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
)

// shapes has every record shape that is accepted, with its problem in normal form. The id of a row without one is the hash of its
// content, and is checked elsewhere.
var shapes = []struct{ name, row, want string }{
	{
		"primeintellect stdin",
		"{\"problem\":\"Add.\",\"solutions\":[\"```python\\nprint(3)\\n" +
			"```\"],\"tests\":\"[{\\\"type\\\":\\\"stdin_stdout\\\",\\\"input\\\":\\\"1 2\\\\n\\\",\\\"output\\\":\\\"3\\\\n\\\"}]\"}",
		`{"kind":"stdin","prompt":"Add.","tests":[{"stdin":"1 2\n","stdout":"3\n"}]}`,
	},
	{
		"primeintellect call, expected value wrapped and not",
		`{"problem":"Add.","tests":"[{\"type\":\"function_call\",\"fn_name\":\"add\",\"input\":[1,2],\"output\":[3]},` +
			`{\"type\":\"function_call\",\"fn_name\":\"add\",\"input\":[12345678901234567890,\"x\"],\"output\":{\"a\":1.0}}]"}`,
		`{"kind":"call","fn_name":"add","prompt":"Add.","tests":[{"args":[1,2],"returns":[3],"unwrap_ok":true},` +
			`{"args":[12345678901234567890,"x"],"returns":{"a":1.0}}]}`,
	},
	{
		"primeintellect call, name in the first test only",
		`{"problem":"f","tests":"[{\"type\":\"function_call\",\"fn_name\":\"f\",\"input\":[],\"output\":[]},` +
			`{\"type\":\"function_call\",\"input\":[[1,2]],\"output\":[[1,2]]}]"}`,
		`{"kind":"call","fn_name":"f","prompt":"f","tests":[{"args":[],"returns":[]},{"args":[[1,2]],"returns":[[1,2]],"unwrap_ok":true}]}`,
	},
	{
		"taco stdin, text and lists of lines",
		`{"problem":"Echo.","solutions":[],"starter_code":null,"metadata":null,` +
			`"tests":"{\"inputs\":[\"1\\n2\",[\"1\",\"2\"],[3,\"4\"]],\"outputs\":[\"3\",[\"1\",\"2\"],[7]]}"}`,
		`{"kind":"stdin","prompt":"Echo.","tests":[{"stdin":"1\n2","stdout":"3"},{"stdin":"1\n2","stdout":"1\n2"},{"stdin":"3\n4",` +
			`"stdout":"7"}]}`,
	},
	{
		"taco call",
		`{"problem":"Greet.","tests":"{\"fn_name\":\"greet\",\"inputs\":[[\"abc\"],[1,2]],\"outputs\":[[\"hi\"],5]}"}`,
		`{"kind":"call","fn_name":"greet","prompt":"Greet.","tests":[{"args":["abc"],"returns":["hi"],"unwrap_ok":true},{"args":[1,2],` +
			`"returns":5}]}`,
	},
	{
		"lcbv5 stdin",
		`{"problem":"Add.","starter_code":"","metadata":"{}","tests":"[{\"input\":\"1 2\",\"output\":\"3\",\"testtype\":\"stdin\"}]"}`,
		`{"kind":"stdin","prompt":"Add.","metadata":{},"tests":[{"stdin":"1 2","stdout":"3"}]}`,
	},
	{
		"lcbv5 functional, metadata an object",
		`{"problem":"Sum.","starter_code":"class Solution:\n    def total(self, a: List[int], b: int) -> List[int]:\n        ",` +
			`"metadata":{"func_name":"total"},"tests":"[{\"input\":\"[1, 2]\\n-1\",\"output\":\"[3]\",\"testtype\":\"functional\"}]"}`,
		`{"kind":"call","fn_name":"total","prompt":"Sum.",` +
			`"starter_code":"class Solution:\n    def total(self, a: List[int], b: int) -> List[int]:\n        ",` +
			`"metadata":{"func_name":"total"},"tests":[{"args":[[1,2],-1],"returns":[3]}]}`,
	},
	{
		"lcbv5 functional, metadata a string",
		`{"problem":"f","metadata":"{\"func_name\": \"f\"}",` +
			`"tests":"[{\"input\":\"\\\"a b\\\"\\n\",\"output\":\"true\",\"testtype\":\"functional\"}]"}`,
		`{"kind":"call","fn_name":"f","prompt":"f","metadata":{"func_name":"f"},"tests":[{"args":["a b"],"returns":true}]}`,
	},
	{
		"codeforces",
		`{"problem":"Yes or no?","tests":"[{\"input\":\"3\\n\",\"output\":\"YES\\n\"}]"}`,
		`{"kind":"stdin","prompt":"Yes or no?","tests":[{"stdin":"3\n","stdout":"YES\n"}]}`,
	},
	{
		"own stdin",
		`{"id":"sum-1","source":"mine","prompt":"Add.","tests":[{"stdin":"1 2\n","stdout":"3\n","time_limit_ms":50}],` +
			`"time_limit_ms":2000,"memory_limit_mb":64,"tolerance":0.001,"metadata":{"level":[1]}}`,
		`{"id":"sum-1","source":"mine","kind":"stdin","prompt":"Add.","time_limit_ms":2000,"memory_limit_mb":64,"tolerance":0.001,` +
			`"metadata":{"level":[1]},"tests":[{"stdin":"1 2\n","stdout":"3\n","time_limit_ms":50}]}`,
	},
	{
		"own call, aliases",
		`{"id":7,"question":"Add.","prompt":" ","fn_name":"add","checker":"def check(i, o, e): return True",` +
			`"ground_truth":[{"args":[1,2],"returns":null},{"args":[],"returns":[3],"unwrap_ok":true}]}`,
		`{"id":"7","kind":"call","fn_name":"add","prompt":"Add.","checker":"def check(i, o, e): return True","tests":[{"args":[1,2],` +
			`"returns":null},{"args":[],"returns":[3],"unwrap_ok":true}]}`,
	},
	{
		"own call, function named once for plain inputs and outputs",
		`{"prompt":"f","fn_name":"f","tests":[{"input":[1],"output":2}]}`,
		`{"kind":"call","fn_name":"f","prompt":"f","tests":[{"args":[1],"returns":2}]}`,
	},
	{
		"a pair of surrogates is one character",
		`{"prompt":"f","tests":[{"stdin":"\ud83d\ude00 \\ud800","stdout":"<&>"}]}`,
		`{"kind":"stdin","prompt":"f","tests":[{"stdin":"😀 \\ud800","stdout":"<&>"}]}`,
	},
	{
		"an empty function name on stdin tests says nothing",
		`{"problem":"f","metadata":{"func_name":null},` +
			`"tests":"[{\"type\":\"stdin_stdout\",\"fn_name\":null,\"input\":\"\",\"output\":\"1\"}]"}`,
		`{"kind":"stdin","prompt":"f","metadata":{"func_name":null},"tests":[{"stdin":"","stdout":"1"}]}`,
	},
}

func normaliseLine(line string) (*normalised, error) {
	return normalise(&row{source: "src", line: []byte(line)})
}

func lineOf(n *normalised) string {
	var b strings.Builder
	n.writeTo(&b)
	return b.String()
}

func TestShapes(t *testing.T) {
	for _, c := range shapes {
		t.Run(c.name, func(t *testing.T) {
			n, err := normaliseLine(c.row)
			require.NoError(t, err)
			var got, want map[string]any
			require.NoError(t, json.Unmarshal([]byte(lineOf(n)), &got))
			require.NoError(t, json.Unmarshal([]byte(c.want), &want))
			if want["id"] == nil {
				require.Regexp(t, `^src-[0-9a-f]{12}$`, got["id"])
				delete(got, "id")
			}
			if want["source"] == nil {
				require.Equal(t, "src", got["source"])
				delete(got, "source")
			}
			require.Equal(t, want, got)
			require.Contains(t, lineOf(n), c.want[strings.Index(c.want, `"tests":`):], "numbers in tests keep their digits")

			again, err := normaliseLine(lineOf(n))
			require.NoError(t, err)
			require.Equal(t, lineOf(n), string(lineOf(again)), "the normal form is its own normal form")
		})
	}
}

// stdin is a valid test.
const stdin = `"tests":[{"stdin":"","stdout":""}]`

var refusals = []struct {
	name, row string
	reason    Reason
	says      string
}{
	{"broken line", `{"prompt":"x",`, NotJSON, "unexpected end"},
	{"not an object", `["prompt"]`, NotJSON, "found a JSON array, expected an object"},
	{"broken tests", `{"prompt":"x","tests":"[{]"}`, NotJSON, `"tests": invalid character`},
	{"NaN is not JSON",
		`{"prompt":"x","tests":"[{\"type\":\"function_call\",\"fn_name\":\"f\",\"input\":[1],\"output\":NaN}]"}`, NotJSON, "'N'"},
	{"a plain answer", `{"question":"2+2?","ground_truth":"four"}`, NotJSON, `"ground_truth"`},
	{"bytes", "{\"prompt\":\"\xff\"," + stdin + `}`, NotText, "UTF-8"},
	{"half a surrogate pair", `{"prompt":"x","tests":[{"stdin":"\ud800","stdout":""}]}`, NotText, `\ud800`},
	{"half a surrogate pair inside a string", `{"prompt":"x","tests":"[{\"input\":\"\",\"output\":\"\\uDC00\"}]"}`, NotText, `\udc00`},
	{"no statement", `{` + stdin + `}`, NoStatement, `"prompt", "question" or "problem"`},
	{"blank statement", `{"problem":" \n","prompt":null,` + stdin + `}`, NoStatement, ""},
	{"statement of the wrong type", `{"prompt":[{"role":"user","content":"x"}],` + stdin + `}`, BadField,
		`"prompt": found a list, expected a string; from a list of messages take the content of the user's ("From TRL or verl" in ` +
			`docs/tasks.md)`},
	{"no tests", `{"prompt":"x","tests":null}`, NoTests, `"tests" or "ground_truth"`},
	{"empty tests", `{"prompt":"x","tests":"[]"}`, NoTests, "empty"},
	{"empty columns", `{"prompt":"x","tests":"{\"inputs\":[],\"outputs\":[]}"}`, NoTests, "empty"},
	{"a number of tests", `{"prompt":"x","tests":5}`, BadTests, "found a number, expected a list of tests"},
	{"an object", `{"prompt":"x","tests":{"input":"1"}}`, BadTests, `"inputs" and "outputs"`},
	{"columns of different length", `{"prompt":"x","tests":{"inputs":["1","2"],"outputs":["1"]}}`, BadTests, "2 inputs, but 1 outputs"},
	{"test of the wrong type", `{"prompt":"x","tests":[{"stdin":"","stdout":""},{"stdin":1,"stdout":""}]}`, BadTests,
		`tests[1]: "stdin": found a JSON number, expected a text`},
	{"test without expected value", `{"prompt":"x","tests":[{"input":"1"}]}`, BadTests, "tests[0]: expected"},
	{"own test of both kinds", `{"prompt":"x","tests":[{"stdin":"","stdout":"","args":[],"returns":1}]}`, BadTests, "exactly"},
	{"unknown type", `{"prompt":"x","tests":[{"type":"shell","input":"","output":""}]}`, BadTests, `found type "shell"`},
	{"two types", `{"prompt":"x","tests":[{"type":"stdin","testtype":"functional","input":"","output":""}]}`, BadTests, "testtype"},
	{"nested lines", `{"prompt":"x","tests":{"inputs":[[["1"]]],"outputs":["1"]}}`, BadTests, `"input": line 1 is a list`},
	{"an object as input", `{"prompt":"x","tests":[{"input":{},"output":""}]}`, BadTests, "found an object"},
	{"null as output", `{"prompt":"x","tests":[{"input":"","output":null}]}`, BadTests, "found null"},
	{"call or not", `{"prompt":"x","metadata":{"func_name":"f"},"tests":[{"input":"1","output":"2"}]}`, BadTests, "testtype"},
	{"kind says otherwise", `{"prompt":"x","kind":"call",` + stdin + `}`, BadTests, `"kind" says call`},
	{"unknown kind", `{"prompt":"x","kind":"shell",` + stdin + `}`, BadField, `expected "stdin", "call", "answer" or "assert"`},
	{"both kinds", `{"prompt":"x","fn_name":"f","tests":[{"stdin":"","stdout":""},{"args":[],"returns":1}]}`, MixedKinds,
		"tests[1] is of kind call"},
	{"no function name", `{"prompt":"x","tests":[{"args":[],"returns":1}]}`, NoFunction, `the name of the function is missing`},
	{"no identifier", `{"prompt":"x","fn_name":"2f()","tests":[{"args":[],"returns":1}]}`, NoFunction, `"2f()"`},
	{"two functions",
		`{"prompt":"x","tests":[{"type":"function_call","fn_name":"f","input":[],"output":1},{"type":"function_call","fn_name":"g",` +
			`"input":[],"output":1}]}`, NoFunction, `tests[1] calls "g"`},
	{"taco call without a list", `{"prompt":"x","tests":{"fn_name":"f","inputs":[5],"outputs":[1]}}`, BadArguments,
		"found a number, expected a list of arguments"},
	{"functional input that is not JSON",
		`{"prompt":"x","metadata":{"func_name":"f"},"tests":[{"testtype":"functional","input":"1\nabc","output":"1"}]}`, BadArguments,
		`line 2: found "abc"`},
	{"functional output that is not JSON",
		`{"prompt":"x","metadata":{"func_name":"f"},"tests":[{"testtype":"functional","input":"1","output":"True"}]}`, BadExpected,
		`found "True"`},
	{"functional output that is not text",
		`{"prompt":"x","metadata":{"func_name":"f"},"tests":[{"testtype":"functional","input":"1","output":[1]}]}`, BadExpected,
		"found a list"},
	{"unwrap what is not wrapped",
		`{"prompt":"x","fn_name":"f","tests":[{"args":[],"returns":[1,2],"unwrap_ok":true}]}`, BadExpected, "one element"},
	{"metadata", `{"prompt":"x","metadata":"[1]",` + stdin + `}`, BadField, `"metadata": found a JSON array, expected an object`},
	{"starter code", `{"prompt":"x","starter_code":5,` + stdin + `}`, BadField, `"starter_code": found a number, expected a string`},
	{"id", `{"id":[1],"prompt":"x",` + stdin + `}`, BadField, `"id"`},
	{"limit", `{"prompt":"x","time_limit_ms":-5,` + stdin + `}`, BadField, `"time_limit_ms"`},
	{"part of a millisecond", `{"prompt":"x","time_limit_ms":0.5,` + stdin + `}`, BadField, "whole number"},
	{"limit of a test", `{"prompt":"x","tests":[{"stdin":"","stdout":"","memory_limit_mb":-1}]}`, BadField, "tests[0]"},
	{"limit that no time is", `{"prompt":"x","tests":[{"stdin":"","stdout":"","time_limit_ms":9223372036854775}]}`, BadField, "tests[0]"},
	{"tolerance", `{"prompt":"x","tolerance":"1e-6",` + stdin + `}`, BadField, `"tolerance"`},
	{"more public tests than tests", `{"prompt":"x","public_tests":2,"tests":[{"stdin":"","stdout":""}]}`, BadField,
		`"public_tests": found 2, expected at most 1`},
	{"half a public test", `{"prompt":"x","public_tests":0.5,"tests":[{"stdin":"","stdout":""}]}`, BadField, "whole number"},
	{"public twice", `{"prompt":"x","public_tests":1,"tests":[{"stdin":"","stdout":""},{"stdin":"1","stdout":"1","public":true}]}`, BadField,
		`tests[1] has "public"`},
	{"a column twice", `{"prompt":"x","tests":[{"stdin":"","stdout":""}],"prompt":"y"}`, Doubled, `"prompt" is there twice`},
	{"a key twice", `{"prompt":"x","tests":[{"stdin":"","stdout":"","stdin":"1"}]}`, Doubled, `"tests[0].stdin" is there twice`},
	{"a key twice in a text", `{"prompt":"x","tests":"[{\"stdin\":\"\",\"stdout\":\"\",\"stdin\":\"1\"}]"}`, Doubled,
		`"tests": "[0].stdin" is there twice`},
	{"metadata twice in a text", `{"prompt":"x","metadata":"{\"a\":1,\"a\":2}","tests":[{"stdin":"","stdout":""}]}`, Doubled,
		`"metadata": "a" is there twice`},
	{"a schema twice in a text", `{"prompt":"x","match":"json_schema","answer":"{\"type\":\"null\",\"type\":\"array\"}"}`, Doubled,
		`"answer": "type" is there twice`},
	{"public as text", `{"prompt":"x","tests":[{"stdin":"","stdout":"","public":"yes"}]}`, BadTests, "public"},
}

// TestPublicTests: public tests are marked one by one, whichever way the row says it, and in every shape.
func TestPublicTests(t *testing.T) {
	for _, row := range []string{
		`{"prompt":"x","tests":[{"stdin":"1","stdout":"1","public":true},{"stdin":"2","stdout":"2"}]}`,
		`{"prompt":"x","public_tests":1,"tests":[{"stdin":"1","stdout":"1"},{"stdin":"2","stdout":"2","public":false}]}`,
		`{"prompt":"x","public_tests":1,"tests":{"inputs":["1","2"],"outputs":["1","2"]}}`,
		`{"prompt":"x","tests":[{"input":"1","output":"1","public":true},{"input":"2","output":"2","public":null}]}`,
	} {
		n, err := normaliseLine(row)
		require.NoError(t, err, row)
		require.Equal(t, `[{"stdin":"1","stdout":"1","public":true},{"stdin":"2","stdout":"2"}]`, string(n.tests), row)
	}
	n, err := normaliseLine(`{"prompt":"x","fn_name":"f","public_tests":1,"tests":[{"args":[],"returns":1}]}`)
	require.NoError(t, err)
	require.Equal(t, `[{"args":[],"returns":1,"public":true}]`, string(n.tests))
}

// Rows that no answer could solve, or that are ambiguous, are refused with the reason.
func TestRefusals(t *testing.T) {
	for _, c := range append(refusals, refusedAnswers...) {
		t.Run(c.name, func(t *testing.T) {
			_, err := normaliseLine(c.row)
			var refused *Refused
			require.True(t, errors.As(err, &refused), "%v", err)
			require.Equal(t, c.reason, refused.Reason, refused.Detail)
			require.Contains(t, refused.Detail, c.says)
		})
	}
}

// unquote agrees with encoding/json on all texts that checkText accepts.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`""`, `"plain"`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9\ud83d\ude00\u0000x"`, `"\\ud800"`, `"\ud800"`, `"é😀"`,
		`"\\\\\\u0041\u0041"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := []byte(s)
		var want string
		if json.Unmarshal(raw, &want) != nil || len(raw) == 0 || raw[0] != '"' || raw[len(raw)-1] != '"' {
			return
		}
		if checkText(raw) != nil {
			require.Contains(t, want, "\ufffd", "what is refused would have changed")
			return
		}
		require.Equal(t, want, unquote(raw))
	})
}

// Any line is refused, or becomes a problem whose normal form reads back as itself.
func FuzzNormalise(f *testing.F) {
	for _, c := range shapes {
		f.Add(c.row)
	}
	f.Add(`{"prompt":"x","fn_name":"f","tests":[{"input":"\"\\ud83d\\ude00\"","output":"1"}]}`)
	f.Add(`{"prompt":"x","tests":"","ground_truth":"[{\"stdin\":\"\",\"stdout\":\"\",\"returns\":null}]"}`)
	f.Fuzz(func(t *testing.T, line string) {
		n, err := normaliseLine(line)
		if err != nil {
			var refused *Refused
			require.True(t, errors.As(err, &refused), "%v", err)
			return
		}
		tests, err := data.DecodeTests(n.tests)
		require.NoError(t, err)
		require.Len(t, tests, n.problem.NumTests)
		require.Positive(t, len(tests))
		again, err := normaliseLine(lineOf(n))
		require.NoError(t, err)
		require.Equal(t, lineOf(n), string(lineOf(again)))
	})
}
