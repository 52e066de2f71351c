package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

var ctx = context.Background()

// write writes a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func open(t *testing.T, source string, opt Options) *Set {
	t.Helper()
	if opt.CacheDir == "" {
		opt.CacheDir = t.TempDir()
	}
	set, err := Open(ctx, source, opt)
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	return set
}

// allShapes is a file with rows of every shape, then rows that are refused.
func allShapes() string {
	var b strings.Builder
	for _, c := range shapes {
		b.WriteString(c.row + "\n")
	}
	b.WriteString("\n{\"prompt\":\"x\"}\nnonsense\n" + shapes[0].row)
	return b.String()
}

func TestOpenCountsAndRefuses(t *testing.T) {
	path := write(t, t.TempDir(), "mix.jsonl", allShapes())
	set := open(t, path, Options{})
	m := set.Manifest()
	require.Equal(t, len(shapes), m.Problems)
	require.Len(t, set.Problems(), len(shapes))
	require.Equal(t, map[string]int{"solutions": 3}, m.Unread)

	n := len(shapes)
	require.Len(t, m.Refused, 3)
	for i, want := range []Refused{
		{Where: fmt.Sprintf("%s:%d", path, n+2), Reason: NoTests},
		{Where: fmt.Sprintf("%s:%d", path, n+3), Reason: NotJSON},
		{Where: fmt.Sprintf("%s:%d", path, n+4), Reason: Duplicate},
	} {
		require.Equal(t, want.Where, m.Refused[i].Where)
		require.Equal(t, want.Reason, m.Refused[i].Reason)
	}
	require.Contains(t, m.Refused[2].Detail, path+":1", "a duplicate names the first")

	tests := 0
	for i := range set.Problems() {
		p := &set.Problems()[i]
		got, err := p.Tests(ctx)
		require.NoError(t, err)
		require.Len(t, got, p.NumTests)
		for _, test := range got {
			require.Equal(t, p.Kind, test.Kind())
		}
		tests += len(got)
	}
	require.Equal(t, m.Tests, tests)
}

// A data set in memory has the same problems as one in a store, and refuses invalid rows.
func TestRead(t *testing.T) {
	text := shapes[0].row + "\n" + shapes[1].row + "\n"
	got, err := Read(ctx, "mix.jsonl", strings.NewReader(text))
	require.NoError(t, err)
	set := open(t, write(t, t.TempDir(), "mix.jsonl", text), Options{})
	require.Len(t, got, 2)
	for i, p := range set.Problems() {
		want, err := p.Tests(ctx)
		require.NoError(t, err)
		tests, err := got[i].Tests(ctx)
		require.NoError(t, err)
		require.Equal(t, want, tests)
		require.Equal(t, p.WithLoader(0, nil), got[i].WithLoader(0, nil))
	}
	_, err = Read(ctx, "mix.jsonl", strings.NewReader(allShapes()))
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, fmt.Sprintf("mix.jsonl:%d: no tests", len(shapes)+2))
	_, err = Read(ctx, "mix.jsonl", strings.NewReader(text+text))
	require.ErrorContains(t, err, "mix.jsonl:3: duplicate")
}

func TestStrictNamesTheRow(t *testing.T) {
	path := write(t, t.TempDir(), "mix.jsonl", allShapes())
	_, err := Open(ctx, path, Options{Strict: true, CacheDir: t.TempDir()})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, fmt.Sprintf("mix.jsonl:%d: no tests", len(shapes)+2))
	require.ErrorContains(t, err, fmt.Sprintf("3 of %d rows refused; 'grpo data inspect --refused' lists them", len(shapes)+3))
}

// The output of convert is a data set with the same problems and the same fingerprint, which is the hash of the file.
func TestNormalFormReadsBack(t *testing.T) {
	dir := t.TempDir()
	set := open(t, write(t, dir, "mix.jsonl", allShapes()), Options{})
	var out bytes.Buffer
	require.NoError(t, set.WriteNormal(ctx, &out))

	again := open(t, write(t, dir, "other name.jsonl", out.String()), Options{Strict: true})
	require.Equal(t, set.Manifest().SHA256, again.Manifest().SHA256)
	require.Equal(t, again.Manifest().SHA256, again.Manifest().Files[0].SHA256)

	for line := range strings.Lines(out.String()) {
		var r data.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r), "a line is a data.Record")
		text, err := jsonl.Marshal(r)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(line), string(text))
	}
}

func TestExpectedHash(t *testing.T) {
	m := open(t, write(t, t.TempDir(), "a.jsonl", shapes[0].row), Options{}).Manifest()
	require.NoError(t, m.CheckHash(m.SHA256))
	require.NoError(t, m.CheckHash("sha256:"+strings.ToUpper(m.Files[0].SHA256)))
	for bad, says := range map[string]string{strings.Repeat("0", 64): "has changed", "abc": "64 hexadecimal digits"} {
		err := m.CheckHash(bad)
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, says)
	}
}

// A row with the question of an earlier one is refused, whatever its id; one with an additional part is not.
func TestRowsThatRepeatAreRefused(t *testing.T) {
	const asks = `"prompt":"p","tests":[{"stdin":"","stdout":"1"}]`
	path := write(t, t.TempDir(), "p.jsonl", `{"id":"a",`+asks+"}\n"+`{"id":"b",`+asks+"}\n{"+asks+"}\n"+
		`{"id":"c","time_limit_ms":5,`+asks+"}\n"+`{"id":"d","checker":"def check(i, o, e): return True",`+asks+"}\n")
	set, err := Open(t.Context(), path, Options{CacheDir: t.TempDir()})
	require.NoError(t, err)
	defer set.Close()
	require.Len(t, set.Problems(), 3)
	refused := set.Manifest().Refused
	require.Len(t, refused, 2)
	require.Equal(t, Refused{Where: path + ":2", Reason: Duplicate,
		Detail: "it is the same problem as " + path + ":1, with another id"}, refused[0])
	_, err = Read(t.Context(), "p.jsonl", strings.NewReader(`{"id":"a",`+asks+"}\n"+`{"id":"b",`+asks+"}\n"))
	require.ErrorContains(t, err, "p.jsonl:2: duplicate")
}
