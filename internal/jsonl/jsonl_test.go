package jsonl

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

type record struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

func TestMarshal(t *testing.T) {
	line, err := Marshal(record{Name: "a < b && c > \"d\"\n", Size: 1})
	require.NoError(t, err)
	require.Equal(t, `{"name":"a < b && c > \"d\"\n","size":1}`, string(line))
	_, err = Marshal(func() {})
	require.Error(t, err)
}

// A faulty line is refused by file and number; blank lines are counted.
func TestEachRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"{\"name\":5}":                   `f:1: field "name": found a JSON number, expected a text`,
		"\n\n{\"name\":\"a\",\"age\":1}": `f:3: json: unknown field "age"; the fields are name, size`,
		"{\"name\":":                     "f:1: the JSON value ends too early",
		"{} {}":                          "f:1: more than one JSON value on the line",
		"[]":                             "f:1: found a JSON array, expected an object",
		"{\"name\":\"\xff\"}":            "f:1: bytes that are not UTF-8",
		`{"name":"a\ud800"}`:             `f:1: \ud800 is half of a surrogate pair`,
	} {
		err := Each(strings.NewReader(text), "f", func(int, record) error { return nil })
		require.EqualError(t, err, says)
		require.True(t, badinput.Is(err))
	}
}

func TestEachLoosePassesOverFields(t *testing.T) {
	var got []record
	err := EachLoose(strings.NewReader("{\"name\":\"a\",\"age\":1}\n\n{\"size\":2}"), "f", func(line int, r record) error {
		require.Equal(t, 2*len(got)+1, line)
		got = append(got, r)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []record{{Name: "a"}, {Size: 2}}, got)
}

// A field that is read may occur only once; unknown fields are ignored.
func TestEachLooseRefusesAFieldTwice(t *testing.T) {
	for line, refused := range map[string]string{
		`{"name":"a","name":"b"}`: "name", `{"name":"a","Name":"b"}`: "Name", `{"age":1,"Age":2,"name":"a","age":3}`: "",
		`{"age":1,"age":2,"size":1,"size":2}`: "size",
	} {
		err := EachLoose(strings.NewReader(line), "f", func(int, record) error { return nil })
		if refused == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, `f:1: field "`+refused+`" is there twice; leave one of them out`)
		}
	}
}

// Some editors and shells write a byte order mark.
func TestAMarkBeforeTheFirstLine(t *testing.T) {
	var got []record
	err := EachLoose(strings.NewReader("\ufeff{\"name\":\"a\"}\r\n"), "f", func(_ int, r record) error {
		got = append(got, r)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []record{{Name: "a"}}, got)
}

// Only an input error of the caller is reported with file and line; other errors are returned unchanged.
func TestErrorsOfTheCaller(t *testing.T) {
	mine := errors.New("the disk is full")
	require.Equal(t, mine, Each(strings.NewReader("{}"), "f", func(int, record) error { return mine }))
	err := Each(strings.NewReader("{}"), "f", func(int, record) error { return badinput.Errorf("size is 0") })
	require.EqualError(t, err, "f:1: size is 0")
}

func TestWholeLeavesOutAHalfWrittenLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("one\n\ntwo\nthr"), 0o644))
	var lines []string
	require.NoError(t, EachComplete(path, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	}))
	require.Equal(t, []string{"one", "", "two"}, lines)

	err := EachComplete(path, func(line []byte) error { return json.Unmarshal(line, &lines) })
	require.True(t, badinput.Is(err))
	require.EqualError(t, err, path+":1: invalid character 'o' looking for beginning of value; fix that line, or bring the file "+
		"back from a copy")
}

func TestLinesOfAKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	text := "{\"n\":1}\n{\"kind\":\"a\",\"n\":2}\n{\"n\":3}\n{\"kind\":\"a\",\"n\":4" // the last line is truncated
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	type line struct{ N int }
	plain, err := OfKind[line](path, "")
	require.NoError(t, err)
	require.Equal(t, []line{{1}, {3}}, plain)
	named, err := OfKind[line](path, "a")
	require.NoError(t, err)
	require.Equal(t, []line{{2}}, named)
}

// A null in a list is refused, and not read as zero.
func TestListsHaveNoHoles(t *testing.T) {
	type record struct {
		Numbers List[float32] `json:"numbers"`
	}
	read := func(text string) (got []float32, err error) {
		err = Each(strings.NewReader("\n"+text), "in", func(_ int, r record) error {
			got = r.Numbers
			return nil
		})
		return got, err
	}
	got, err := read(`{"numbers":[1,-2.5]}`)
	require.NoError(t, err)
	require.Equal(t, []float32{1, -2.5}, got)
	got, err = read(`{"numbers":null}`)
	require.NoError(t, err)
	require.Nil(t, got)
	for text, message := range map[string]string{
		`{"numbers":[1,null]}`:  `in:2: field "numbers": found a JSON null, expected a number`,
		`{"numbers":["1"]}`:     `in:2: field "numbers": found a JSON string, expected a number`,
		`{"numbers":[1e99]}`:    `in:2: field "numbers": found a JSON number 1e99, expected a number nearer to 0`,
		`{"numbers":[NaN]}`:     "in:2: invalid character 'N'",
		`{"numbers":{"a":"b"}}`: `in:2: field "numbers": found a JSON object`,
	} {
		_, err := read(text)
		require.ErrorContains(t, err, message)
		require.True(t, badinput.Is(err))
	}
}
