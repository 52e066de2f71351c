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

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

var ctx = context.Background()

// write makes a file below a fresh folder and returns its path.
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

// allShapes is a file with every shape, then rows that are refused.
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

// A set in memory holds the same problems as one in a store, and is strict.
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
	require.ErrorContains(t, err, fmt.Sprintf("3 of %d rows", len(shapes)+3))
}

// What convert writes is a data set of its own: the same problems, the same fingerprint, which is
// the hash of the file.
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
		text, err := encode(r)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(line), string(text))
	}
}

type parquetTest struct {
	Input    string `parquet:"input"`
	Output   string `parquet:"output"`
	TestType string `parquet:"testtype"`
}

type parquetRecord struct {
	Problem   string   `parquet:"problem"`
	Solutions []string `parquet:"solutions,list"`
	Tests     *string  `parquet:"tests,optional"`
	Starter   *string  `parquet:"starter_code,optional"`
	Metadata  *struct {
		FuncName *string `parquet:"func_name,optional"`
	} `parquet:"metadata,optional"`
}

func writeParquet[T any](t *testing.T, path string, perGroup int64, rows ...T) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewGenericWriter[T](f, parquet.MaxRowsPerRowGroup(perGroup), parquet.Compression(&parquet.Snappy))
	_, err = w.Write(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

// The same rows give the same problems from Parquet as from JSON Lines: text columns, null columns,
// a struct for the metadata, several row groups.
func TestParquetEqualsLines(t *testing.T) {
	dir := t.TempDir()
	name, empty := "total", ""
	stdin, call := `[{"input":"1 < 2","output":"3","testtype":"stdin"}]`, `[{"input":"[1]\n2","output":"[3]","testtype":"functional"}]`
	rows := []parquetRecord{
		{Problem: "one", Tests: &stdin, Starter: &empty, Solutions: []string{"a", "b"}},
		{Problem: "two", Tests: &call, Metadata: &struct {
			FuncName *string `parquet:"func_name,optional"`
		}{&name}},
		{Problem: "three"},
		{Problem: "four", Tests: &stdin},
	}
	writeParquet(t, filepath.Join(dir, "p", "lcb.parquet"), 3, rows...)
	lines := `{"problem":"one","tests":[{"input":"1 < 2","output":"3","testtype":"stdin"}]}
{"problem":"two","metadata":{"func_name":"total"},"tests":[{"input":"[1]\n2","output":"[3]","testtype":"functional"}]}
{"problem":"three"}
{"problem":"four","tests":[{"input":"1 < 2","output":"3","testtype":"stdin"}]}`
	fromLines := open(t, write(t, dir, "l/lcb.jsonl", lines), Options{})
	fromParquet := open(t, filepath.Join(dir, "p", "lcb.parquet"), Options{})
	require.Equal(t, fromLines.Manifest().SHA256, fromParquet.Manifest().SHA256)
	require.Equal(t, 3, fromParquet.Manifest().Problems)
	require.Equal(t, filepath.Join(dir, "p", "lcb.parquet")+" row 3", fromParquet.Manifest().Refused[0].Where)
	require.Equal(t, map[string]int{"solutions": 4}, fromParquet.Manifest().Unread)
}

// Tests may also be a table inside the table, in place of a string of JSON.
func TestParquetNestedTests(t *testing.T) {
	type record struct {
		Prompt string        `parquet:"prompt"`
		Tests  []parquetTest `parquet:"tests,list"`
	}
	path := filepath.Join(t.TempDir(), "n.parquet")
	writeParquet(t, path, 10, record{"x", []parquetTest{{"1", "2", "stdin"}, {"3 &", "4", "stdin"}}},
		record{"y", []parquetTest{{"\xff", "", ""}}})
	set := open(t, path, Options{})
	got, err := set.Problems()[0].Tests(ctx)
	require.NoError(t, err)
	require.Equal(t, []data.Test{{Stdin: "1", Stdout: "2"}, {Stdin: "3 &", Stdout: "4"}}, got)
	require.Equal(t, NotText, set.Manifest().Refused[0].Reason)
}

func TestDamagedParquet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d.parquet")
	stdin := `[{"input":"` + strings.Repeat("1", 5000) + `","output":"3"}]`
	writeParquet(t, path, 10, parquetRecord{Problem: "x", Tests: &stdin})
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, text := range map[string][]byte{"cut": whole[:len(whole)/2],
		"zeros": append(append(append([]byte{}, whole[:8]...), make([]byte, 200)...), whole[208:]...), "text": []byte("hello")} {
		_, err := Open(ctx, write(t, dir, name+".parquet", string(text)), Options{CacheDir: t.TempDir()})
		require.True(t, badinput.Is(err), "%s: %v", name, err)
		require.ErrorContains(t, err, name+".parquet")
	}
}

// The layout of a data set with collections and splits, in a folder.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	row := func(s string) string { return `{"problem":"` + s + `","tests":[{"input":"","output":"` + s + `"}]}` }
	for _, name := range []string{"taco/train-00000-of-00002.jsonl", "taco/train-00001-of-00002.jsonl", "lcbv5/train-00000-of-00001.jsonl",
		"lcbv5/test-00000-of-00001.jsonl", "codeforces/test-00000-of-00001.jsonl"} {
		write(t, dir, name, row(name))
	}
	write(t, dir, "README.md", "no data")
	sources := func(opt Options) (got []string) {
		for _, p := range open(t, dir, opt).Problems() {
			got = append(got, p.Source)
		}
		return got
	}
	require.Equal(t, []string{"lcbv5", "taco", "taco"}, sources(Options{}))
	require.Equal(t, []string{"codeforces", "lcbv5"}, sources(Options{Split: "test"}))
	require.Equal(t, []string{"codeforces", "lcbv5", "lcbv5", "taco", "taco"}, sources(Options{Split: "all"}))
	require.Equal(t, []string{"lcbv5"}, sources(Options{Collections: []string{"lcbv5"}}))

	for _, c := range []struct {
		opt  Options
		says string
	}{
		{Options{Split: "validation"}, "it has test, train"},
		{Options{Collections: []string{"apps"}}, "it has lcbv5, taco"},
	} {
		_, err := Open(ctx, dir, c.opt)
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, c.says)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "taco", "train-00000-of-00002.jsonl")))
	_, err := Open(ctx, dir, Options{})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "taco/train-00000-of-00002.jsonl is missing")
}

func TestNoSuchSource(t *testing.T) {
	dir := t.TempDir()
	for source, says := range map[string]string{
		filepath.Join(dir, "no/such/file.jsonl"): "no such file",
		dir:                                      "no .jsonl",
		write(t, dir, "x.csv", "a,b"):            "expected .jsonl",
		write(t, dir, "sub/empty.jsonl", "\n"):   "no rows in it",
		write(t, dir, "sub/bad.jsonl", "{}\n"):   "all 1 rows were refused",
	} {
		if source == dir {
			source = t.TempDir()
		}
		_, err := Open(ctx, source, Options{CacheDir: t.TempDir()})
		require.True(t, badinput.Is(err), "%v", err)
		require.ErrorContains(t, err, says)
	}
}

// The store is made once, is made anew when the file changes, and a damaged one is not trusted.
func TestStoreIsCachedAndChecked(t *testing.T) {
	cache, path := t.TempDir(), write(t, t.TempDir(), "a.jsonl", shapes[0].row)
	built := 0
	opt := Options{CacheDir: cache, Progress: func(int64, int64) { built++ }}
	first := open(t, path, opt)
	require.Equal(t, 1, built)
	require.Equal(t, first.Dir(), open(t, path, opt).Dir())
	require.Equal(t, 1, built)

	write(t, filepath.Dir(path), "a.jsonl", shapes[3].row)
	second := open(t, path, opt)
	require.Equal(t, 2, built)
	require.NotEqual(t, first.Dir(), second.Dir())
	require.NotEmpty(t, second.manifest.Drift(first.Manifest()))

	index := filepath.Join(second.Dir(), indexName)
	text, err := os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, bytes.Replace(text, []byte("Echo"), []byte("echo"), 1), 0o644))
	_, err = OpenStore(second.Dir())
	require.ErrorContains(t, err, "damaged")
	require.Equal(t, second.Manifest(), open(t, path, opt).Manifest())
	require.Equal(t, 3, built, "the damaged store was made anew")

	payload := filepath.Join(second.Dir(), payloadName)
	text, err = os.ReadFile(payload)
	require.NoError(t, err)
	text[5] ^= 1
	require.NoError(t, os.WriteFile(payload, text, 0o644))
	_, err = open(t, path, opt).Problems()[0].Tests(ctx)
	require.ErrorContains(t, err, "damaged")

	left, err := filepath.Glob(filepath.Join(cache, ".making-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCopyOutlivesItsSource(t *testing.T) {
	path, to := write(t, t.TempDir(), "mix.jsonl", allShapes()), filepath.Join(t.TempDir(), "dataset")
	set := open(t, path, Options{})
	require.NoError(t, set.CopyTo(ctx, to))
	require.NoError(t, set.CopyTo(ctx, to), "twice is once")
	require.NoError(t, os.RemoveAll(set.Dir()))
	require.NoError(t, os.Remove(path))
	kept, err := OpenStore(to)
	require.NoError(t, err)
	defer kept.Close()
	require.Equal(t, set.Manifest(), kept.Manifest())
	_, err = kept.Problems()[1].Tests(ctx)
	require.NoError(t, err)

	other := open(t, write(t, t.TempDir(), "o.jsonl", shapes[0].row), Options{})
	require.ErrorContains(t, other.CopyTo(ctx, to), "another data set")
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

func TestCancelledBuildLeavesNothing(t *testing.T) {
	cancelled, cancel := context.WithCancel(ctx)
	cache, path := t.TempDir(), write(t, t.TempDir(), "a.jsonl", strings.Repeat(allShapes()+"\n", 50))
	_, err := Open(cancelled, path, Options{CacheDir: cache, Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Empty(t, left)
}
