package dataset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

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

// The same rows give the same problems from Parquet and from JSON Lines: text columns, null columns, a struct for the metadata, several
// row groups.
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

// Tests may also be a nested table, instead of a string of JSON.
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

// A file with an unsupported compression is not reported as damaged.
func TestParquetOfAnotherCompression(t *testing.T) {
	type said struct {
		Prompt string `parquet:"prompt"`
		Extra  string `parquet:"extra"`
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.parquet")
	for codec, name := range map[byte]string{
		0x0e: "", // LZ4_RAW, which is supported
		0x0a: "LZ4",
		0x06: "LZO",
	} {
		var out bytes.Buffer
		w := parquet.NewGenericWriter[said](&out, parquet.Compression(&parquet.Lz4Raw))
		_, err := w.Write([]said{{strings.Repeat("What? ", 100), "x"}})
		require.NoError(t, errors.Join(err, w.Close()))
		text := bytes.ReplaceAll(out.Bytes(), []byte{0x15, 0x0e}, []byte{0x15, codec}) // the codec's field
		require.NoError(t, os.WriteFile(path, text, 0o644))
		in, err := os.Open(path)
		require.NoError(t, err)
		rows := 0
		err = readParquet(in, "a.parquet", false, func(*row, error) error { rows++; return nil })
		require.NoError(t, in.Close())
		if name == "" {
			require.NoError(t, err)
			require.Equal(t, 1, rows)
			continue
		}
		require.EqualError(t, err, `a.parquet: column "prompt" is compressed with `+name+
			", expected none, snappy, gzip, zstd, brotli or lz4_raw; write the file with one of these")
		require.True(t, badinput.Is(err))
	}
}

// Unsigned numbers are not read as negative ones.
func TestParquetUnsigned(t *testing.T) {
	type answer struct {
		Prompt string `parquet:"prompt"`
		ID     uint64 `parquet:"id"`
		Answer uint32 `parquet:"answer"`
		Match  string `parquet:"match"`
	}
	type test struct {
		Args    []uint32 `parquet:"args,list"`
		Returns uint64   `parquet:"returns"`
	}
	type call struct {
		Prompt string `parquet:"prompt"`
		Name   string `parquet:"fn_name"`
		Tests  []test `parquet:"tests,list"`
	}
	dir := t.TempDir()
	writeParquet(t, filepath.Join(dir, "a.parquet"), 9, answer{"p", 1<<63 + 5, 4e9, "math"})
	writeParquet(t, filepath.Join(dir, "b.parquet"), 9, call{"q", "f", []test{{[]uint32{3e9}, 1<<64 - 1}}})
	set := open(t, dir, Options{Strict: true})
	first, err := set.Problems()[0].Tests(ctx)
	require.NoError(t, err)
	require.Equal(t, "9223372036854775813", set.Problems()[0].ID)
	require.Equal(t, "4000000000", first[0].Match.Want)
	second, err := set.Problems()[1].Tests(ctx)
	require.NoError(t, err)
	require.Equal(t, "3000000000", string(second[0].Args[0]))
	require.Equal(t, "18446744073709551615", string(second[0].Returns))
}
