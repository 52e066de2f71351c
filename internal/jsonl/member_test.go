package jsonl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The members of an object are returned unparsed, whatever they contain, and an incomplete object is an error.
func TestSkim(t *testing.T) {
	skim := func(text string) (members []string, whole bool) {
		whole = EachMember([]byte(text), func(name, value []byte) { members = append(members, string(name)+"="+string(value)) })
		return members, whole
	}
	for text, want := range map[string][]string{
		`{}`:                           nil,
		` { "a" : 1 , "b":-2.5e+3} `:   {"a=1", "b=-2.5e+3"},
		`{"a":{"b":{}},"c":[{},[]]}`:   {`a={"b":{}}`, "c=[{},[]]"},
		`{"a":[1,2],"b":[-1],"c":[]}`:  {"a=[1,2]", "b=[-1]", "c=[]"},
		`{"a":"}\"]","b":{"c":"\\"}}`:  {`a="}\"]"`, `b={"c":"\\"}`},
		`{"a":["x",[0]],"b":null}`:     {`a=["x",[0]]`, "b=null"},
		"{\"a\":true,\n\t\"b\":false}": {"a=true", "b=false"},
	} {
		members, whole := skim(text)
		require.True(t, whole, text)
		require.Equal(t, want, members, text)
	}
	for _, text := range []string{``, `1`, `[1]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":[1`, `{"a":{"b":1}`, `{"a":"b`, `{"a" 1}`,
		`{"a":1 "b":2}`, `{"a":x}`, `{"a":1}{`, `{a:1}`} {
		_, whole := skim(text)
		require.False(t, whole, text)
	}
}
