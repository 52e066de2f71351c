package jsonl

import (
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

// A line that is not what it should be is refused by file and number, blank lines are counted.
func TestEachRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"{\"name\":5}":                   `f:1: field "name": found a JSON number, expected string`,
		"\n\n{\"name\":\"a\",\"age\":1}": `f:3: json: unknown field "age"`,
		"{\"name\":":                     "f:1: the JSON value ends too early",
		"{} {}":                          "f:1: more than one JSON value on the line",
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

// Only an input error of the caller is told with file and line; any other ends reading as it is.
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
	require.NoError(t, Whole(path, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	}))
	require.Equal(t, []string{"one", "", "two"}, lines)
}

func TestLinesOfAKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	text := `{"name":"a"}` + "\n" + `{"kind":"other","name":"b"}` + "\n" + `{"name":"c"}` + "\n" + `{"na`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	all, err := OfKind[record](path, "")
	require.NoError(t, err)
	require.Equal(t, []record{{Name: "a"}, {Name: "c"}}, all)
	all, err = OfKind[record](path, "other")
	require.NoError(t, err)
	require.Equal(t, []record{{Name: "b"}}, all)
}
