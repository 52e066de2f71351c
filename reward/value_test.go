package reward

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var sameValues = []struct {
	got, want string
	same      bool
}{
	{`3`, `3`, true},
	{`3`, `4`, false},
	{`3`, `"3"`, false},
	{`"3"`, `3`, false},
	{`3`, `[3]`, false},
	{`null`, `null`, true},
	{`null`, `0`, false},
	{`null`, `false`, false},
	{`""`, `null`, false},
	{`"a"`, `"a"`, true},
	{`"\u00e9"`, `"é"`, true},
	{`"a"`, `"A"`, false},

	{`true`, `true`, true},
	{`true`, `1`, true},
	{`1`, `true`, true},
	{`1.0`, `true`, true},
	{`0`, `false`, true},
	{`2`, `true`, false},
	{`1.0`, `1`, true},
	{`1`, `1.0`, true},
	{`-0`, `0`, true},
	{`-0.0`, `0`, true},
	{`0.1`, `0.1`, true},
	{`0.1`, `0.10000000000000001`, true}, // the same float
	{`0.1`, `0.1000000000000001`, false},
	{`0.30000000000000004`, `0.3`, false},
	{`100000000000000000000000000000000001`, `100000000000000000000000000000000001`, true},
	{`100000000000000000000000000000000001`, `100000000000000000000000000000000000`, false},
	{`9007199254740993`, `9007199254740992.0`, false},
	{`9007199254740992`, `9007199254740992.0`, true},
	{`100000000000000000`, `1e17`, true},
	{`1e300`, `1`, false},
	{`1e999`, `1e999`, true},
	{`1e999`, `1`, false},
	{`NaN`, `1`, false},
	{`Infinity`, `1e999`, false},

	{`[]`, `[]`, true},
	{`[1,[2,"x"]]`, `[1,[2,"x"]]`, true},
	{`[1,2]`, `[2,1]`, false},
	{`[1]`, `[1,1]`, false},
	{`[]`, `{}`, false},
	{`{}`, `{}`, true},
	{`{}`, `[]`, false},
	{`{}`, `null`, false},
	{`{"a":1,"b":[2]}`, `{"b":[2],"a":true}`, true},
	{`{"a":1}`, `{"a":2}`, false},
	{`{"a":1}`, `{"b":1}`, false},
	{`{"a":1,"b":1}`, `{"a":1}`, false},
	{`{"a":1}`, `{"a":1,"b":1}`, false},
	{`{}`, `{"a":null}`, false},
	{`{"a":1,"a":2}`, `{"a":2}`, true}, // the last of equal keys counts
	{`{"a":1,"a":2}`, `{"a":1}`, false},

	{``, `null`, false},
	{`3 3`, `3`, false},
	{`[3`, `[3]`, false},
	{strings.Repeat("[", 1e6), `[]`, false},
}

func TestSameValue(t *testing.T) {
	for _, tt := range sameValues {
		same, err := SameValue(json.RawMessage(tt.got), json.RawMessage(tt.want), 0)
		require.NoError(t, err)
		require.Equal(t, tt.same, same, "%.60s, wanted %s", tt.got, tt.want)
	}
	_, err := SameValue([]byte(`3`), json.RawMessage(`{`), 0)
	require.ErrorContains(t, err, "expected value")

	for tolerance, want := range map[float64]bool{0: false, 1e-9: false, 1e-6: true} {
		same, err := SameValue(json.RawMessage(`[1.0000001,{"a":2}]`), json.RawMessage(`[1,{"a":2.0000001}]`), tolerance)
		require.NoError(t, err)
		require.Equal(t, want, same)
	}
}

// Comparing a huge wrong value costs no memory in this process.
func TestLargeWrongValue(t *testing.T) {
	got := json.RawMessage("[" + strings.Repeat("0,", 1<<20) + "0]")
	allocs := testing.AllocsPerRun(1, func() {
		same, err := SameValue(got, json.RawMessage("[0, 0, 0]"), 0)
		require.NoError(t, err)
		require.False(t, same)
	})
	require.Less(t, allocs, 1000.)
}

func FuzzSameValue(f *testing.F) {
	for _, s := range []string{`1`, `[1,{"a":null}]`, `1e999`, `"\ud800"`, `-0.0`} {
		f.Add([]byte(s), []byte(s))
	}
	f.Fuzz(func(t *testing.T, got, want []byte) {
		same, err := SameValue(got, want, 0)
		if same && err != nil {
			t.Fatal("SameValue returned true and an error")
		}
		if close, _ := SameValue(got, want, 1e-6); same && !close {
			t.Fatalf("%s and %s: equal but not close", got, want)
		}
		if _, err := parseJSON(want); err == nil {
			if same, err := SameValue(want, want, 0); !same || err != nil {
				t.Fatalf("%s differs from itself: %v", want, err)
			}
		}
	})
}
