package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A duplicate field is reported by its path, at any depth and in any spelling; the same name in two objects is fine.
func TestTwice(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf(`"k%d": %d`, i, i))
	}
	all := strings.Join(many, ", ")
	for text, want := range map[string]string{
		`{"a": 1, "b": 2, "a": 3}`:                                                  "a",
		`{"a": {"b": 1}, "b": {"b": [{"b": 1}, {"b": 2}]}}`:                         "",
		`{"tests": [{"in": "1", "out": "2"}, {"in": "1", "out": "\"", "in": "3"}]}`: "tests[1].in",
		`[[1, 2], [3, {"x": ["]", "{"], "x": 0}]]`:                                  "[1][1].x",
		`[[[1, 2], [[], {}], [-3]], {"y": {"": 1, "": 2}}]`:                         `[1].y.""`,
		`{"a\u0062": 1, "ab": 2}`:                                                   "ab",
		`{"a\\": 1, "a": 2, "a\"": 3}`:                                              "",
		` {"a" : [1 , 2 ] , "b" : null , "c" : true, "b" : -1.5e3 } `:               "b",
		"{" + all + "}":                         "",
		"{" + all + `, "k0": 1}`:                "k0",
		"{" + all + `, "k39": 1}`:               "k39",
		"{" + all + `, "x": 1, "y": 2, "x": 1}`: "x",
		`{}`:                                    "",
		`[]`:                                    "",
		`null`:                                  "",
		` "a" `:                                 "",
		`12`:                                    "",
	} {
		require.True(t, json.Valid([]byte(text)), text)
		require.Equal(t, want, DuplicateKey([]byte(text)), text)
	}
}

func TestAFieldTwiceIsRefused(t *testing.T) {
	type v struct{ A, B int }
	read := func(text string) error {
		return Each(strings.NewReader(text), "x.jsonl", func(int, v) error { return nil })
	}
	require.NoError(t, read(`{"a": 1}`+"\n"+`{"a": 1, "b": 1}`))
	require.EqualError(t, read(`{"a": 1, "b": 1, "A": 2}`), `x.jsonl:1: field "A" is there twice; leave one of them out`)
	require.EqualError(t, read(`{"a": 1}`+"\n"+`{"a": 1, "b": 1, "a": 2}`), `x.jsonl:2: field "a" is there twice; leave one of them out`)
}

// FuzzTwice compares with a decoder that returns names one by one.
func FuzzTwice(f *testing.F) {
	for _, text := range []string{`{"a":1,"a":2}`, `[[1,[2]],{"a":{"b":[]},"b":"]"}]`,
		`{"a\\":[1,{"x":[2]}],"a":"\""}`, `[{"a":[1,"]"],"a":0}]`, `[x`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := DuplicateKey(text) // for invalid JSON it must only return
		if json.Valid(text) {
			require.Equal(t, slow(t, json.NewDecoder(bytes.NewReader(text))), path != "", "%q: %q", text, path)
		}
	})
}

// slow reports whether an object in a text has a duplicate name.
func slow(t *testing.T, d *json.Decoder) bool {
	type level struct {
		names map[string]bool // nil in a list
		value bool            // a value is next, not a name
	}
	var at []level
	twice := false
	for {
		token, err := d.Token()
		if err != nil {
			return twice
		}
		last := len(at) - 1
		delim, _ := token.(json.Delim)
		switch {
		case delim == '}' || delim == ']':
			at = at[:last]
			continue
		case last >= 0 && at[last].names != nil && !at[last].value:
			name := token.(string)
			twice = twice || at[last].names[name]
			at[last].names[name], at[last].value = true, true
			continue
		case last >= 0:
			at[last].value = false
		}
		switch delim {
		case '{':
			at = append(at, level{names: map[string]bool{}})
		case '[':
			at = append(at, level{})
		}
	}
}
