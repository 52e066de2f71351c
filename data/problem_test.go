package data

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// The normal form survives a round trip to the byte, big integers and angle brackets included.
func TestRecordRoundTrip(t *testing.T) {
	lines := []string{
		`{"id":"a-1","source":"a","prompt":"Add.","kind":"stdin","tolerance":0.000001,"metadata":{"k":[1,2]},` +
			`"tests":[{"stdin":"1 < 2\n","stdout":"3"},{"stdin":"","stdout":"","time_limit_ms":9}]}`,
		`{"id":"b-1","source":"b","prompt":"f","starter_code":"def f(): ...","kind":"call","fn_name":"f","time_limit_ms":6000,` +
			`"memory_limit_mb":256,"checker":"def check(i, o, e): return True","tests":[{"args":[],"returns":null},` +
			`{"args":[123456789012345678901234567890,"x"],"returns":[1.0],"unwrap_ok":true,"public":true}]}`,
		`{"id":"c-1","source":"c","prompt":"g","kind":"assert","fn_name":"g","tests":[{"assert":"assert g(1) < 2","setup":"import os",` +
			`"given":"x = 1","calls":["g","h"],"public":true,"memory_limit_mb":7},{"assert":"g(0)"}]}`,
		`{"id":"d-1","source":"d","prompt":"?","kind":"answer","match":"math","tests":[{"math":"\\frac{1}{2}","public":true}]}`,
		`{"id":"e-1","source":"e","prompt":"?","kind":"answer","match":"exact","tests":[{"exact":""}]}`,
		`{"id":"f-1","source":"f","prompt":"?","kind":"answer","match":"regex","tests":[{"regex":"^a<b$"}]}`,
		`{"id":"g-1","source":"g","prompt":"?","kind":"answer","match":"json_schema","tests":[{"json_schema":{"type":"object"}}]}`,
	}
	for _, line := range lines {
		var r Record
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		out, err := jsonl.Marshal(r)
		require.NoError(t, err)
		require.Equal(t, line, string(out))
	}
}

func TestTestIsOfOneKind(t *testing.T) {
	for _, bad := range []string{
		`{}`, `{"stdin":"1"}`, `{"stdout":"1"}`, `{"args":[1]}`, `{"returns":1}`,
		`{"stdin":"1","stdout":"2","args":[]}`, `{"args":[],"returns":1,"stdout":""}`,
		`{"stdin":"1","stdout":"2","unwrap_ok":true}`, `{"stdin":1,"stdout":"2"}`,
		`{"setup":"x = 1"}`, `{"given":"x = 1","stdin":"1","stdout":"2"}`, `{"calls":[]}`, `{"assert":"f()","exact":"1"}`,
		`{"assert":"f()","stdin":"1"}`, `{"assert":"f()","args":[]}`, `{"exact":"1","math":"1"}`, `{"regex":"1","stdout":"1"}`,
		`{"math":"1","returns":1}`, `{"math":"1","time_limit_ms":5}`, `{"json_schema":null}`,
	} {
		var v Test
		require.Error(t, json.Unmarshal([]byte(bad), &v), bad)
	}
	var v Test
	require.NoError(t, json.Unmarshal([]byte(`{"args":[],"returns":0}`), &v))
	require.Equal(t, Call, v.Kind())
}

func TestKindIsClosed(t *testing.T) {
	_, err := json.Marshal(Kind(0))
	require.Error(t, err)
	var k Kind
	require.ErrorContains(t, json.Unmarshal([]byte(`"shell"`), &k), `expected "stdin", "call", "answer" or "assert"`)
}

func TestProblemTests(t *testing.T) {
	p := Problem{ID: "x"}
	_, err := p.Tests(context.Background())
	require.ErrorContains(t, err, "problem x")

	p = p.WithTests(Test{Stdin: "1"}, Test{Stdin: "2"})
	require.Equal(t, 2, p.NumTests)
	got, err := p.Tests(context.Background())
	require.NoError(t, err)
	got[0].Stdin = "changed"
	again, err := p.Tests(context.Background())
	require.NoError(t, err)
	require.Equal(t, "1", again[0].Stdin, "the caller's slice is its own")
}

func TestLimits(t *testing.T) {
	l := Limits{TimeMS: 1500}.Or(Limits{TimeMS: 1, MemoryMB: 2})
	require.Equal(t, 1500*time.Millisecond, l.Time())
	require.Equal(t, int64(2<<20), l.Memory())
}

// The lists that the store keeps equal the JSON of the tests one by one.
func TestEncodeTestsEqualsJSON(t *testing.T) {
	tests := []Test{
		{Stdin: "a\u2028\x00\"\\\t\x7f</é😀", Limits: Limits{MemoryMB: 3}},
		{Args: []json.RawMessage{json.RawMessage("[1, 2]")}, Returns: json.RawMessage("null"), UnwrapOK: true},
	}
	got, err := EncodeTests(tests)
	require.NoError(t, err)
	want, err := jsonl.Marshal(tests)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))

	back, err := DecodeTests(got)
	require.NoError(t, err)
	tests[1].Args[0] = json.RawMessage("[1,2]") // compact
	require.Equal(t, tests, back)
	_, err = DecodeTests([]byte(`[{"stdin":"","stdout":""},{"stdin":""}]`))
	require.ErrorContains(t, err, "tests[1]")
}

// A set without problems that expect a program needs nothing that runs programs.
func TestAllAnswers(t *testing.T) {
	answers, programs := []Problem{{Kind: Answer}, {Kind: Answer}}, []Problem{{Kind: Answer}, {Kind: Call}}
	require.True(t, AllAnswers(answers, nil))
	require.False(t, AllAnswers(answers, programs))
	require.False(t, AllAnswers(nil, nil), "there are no problems")
}

func (columns) LoadTests(context.Context) ([]Test, error) { return nil, nil }

func (c columns) LoadColumns(context.Context) (map[string]json.RawMessage, error) {
	if c == nil {
		return nil, errors.New("disk gone")
	}
	return c, nil
}

type columns map[string]json.RawMessage

func TestProblemColumns(t *testing.T) {
	p := Problem{ID: "x"}.WithTests(Test{})
	got, err := p.Columns(t.Context())
	require.NoError(t, err)
	require.Nil(t, got, "nobody kept any")
	p = p.WithLoader(1, columns{"level": json.RawMessage("3")})
	got, err = p.Columns(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]json.RawMessage{"level": json.RawMessage("3")}, got)
	p = p.WithLoader(1, columns(nil))
	_, err = p.Columns(t.Context())
	require.EqualError(t, err, "problem x: disk gone")
}
