package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// The layout of a data set in a folder, with configurations and splits.
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
	whole := dir
	dir = filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(whole, dir))
	require.Equal(t, []string{"lcbv5", "taco", "taco"}, sources(Options{}), "a link to the folder is followed")
	dir = whole

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
	one := write(t, t.TempDir(), "mine.jsonl", row("x"))
	require.Len(t, open(t, one, Options{Collections: []string{"mine"}}).Problems(), 1)
	_, err := Open(ctx, one, Options{Collections: []string{"mine", "taco"}, CacheDir: t.TempDir()})
	require.ErrorContains(t, err, `no collection "taco" in it; it has mine`)
	require.NoError(t, os.Remove(filepath.Join(dir, "taco", "train-00000-of-00002.jsonl")))
	_, err = Open(ctx, dir, Options{})
	require.True(t, badinput.Is(err))
	require.ErrorContains(t, err, "taco/train-00000-of-00002.jsonl is missing")
}

// A set of thousands of files is listed quickly.
func TestManyShards(t *testing.T) {
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("data/train-%05d-of-03000.parquet", i))
	}
	began := time.Now()
	require.NoError(t, checkShards("data x", names))
	require.ErrorContains(t, checkShards("data x", names[1:]), "train-00000-of-03000.parquet is missing")
	require.Less(t, time.Since(began), 20*time.Second)
}

// A pipe is refused at once, since it can be read only once, and a compressed file with how to decompress it.
func TestPipesAndPackedFilesAreNoData(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.jsonl")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink(pipe, filepath.Join(dir, "link.jsonl")))
	for _, name := range []string{pipe, filepath.Join(dir, "link.jsonl"), "/dev/null"} {
		_, err := Open(t.Context(), name, Options{CacheDir: t.TempDir()})
		require.ErrorContains(t, err, name+": found a pipe or a device, which cannot be read twice; write the rows to a file")
		require.True(t, badinput.Is(err))
	}
	_, err := Open(t.Context(), dir, Options{CacheDir: t.TempDir()}) // a folder with such a file
	require.ErrorContains(t, err, "link.jsonl: found a pipe or a device")
	_, err = Open(t.Context(), write(t, dir, "my rows.jsonl.gz", "\x1f\x8b"), Options{CacheDir: t.TempDir()})
	require.ErrorContains(t, err, "type gzip -dk '"+filepath.Join(dir, "my rows.jsonl.gz")+"', and use the unpacked file")
	require.True(t, badinput.Is(err))
}

// Some editors begin a file with a byte order mark.
func TestAMarkAtTheBeginningIsPassedOver(t *testing.T) {
	row := `{"prompt": "p", "tests": [{"stdin": "1", "stdout": "2"}]}`
	d, err := Open(t.Context(), write(t, t.TempDir(), "x.jsonl", "\ufeff"+row+"\n"), Options{CacheDir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// A JSON list in a file for JSON Lines is reported as such, on one line or on many.
func TestAListIsNoJSONLines(t *testing.T) {
	row := `{"prompt": "p", "tests": [{"stdin": "1", "stdout": "2"}]}`
	for text, list := range map[string]bool{
		"[" + row + "," + row + "]\n": true, "\n[\n  " + row + "\n]\n": true, "[" + row + ",\n" + row + "]": true,
		"[1]\n" + row + "\n": false, row + "\n[" + row + "]\n": false,
	} {
		path := write(t, t.TempDir(), "my x.jsonl", text)
		_, err := Open(t.Context(), path, Options{CacheDir: t.TempDir(), Strict: true})
		require.True(t, badinput.Is(err), "%v", err)
		if list {
			require.EqualError(t, err, path+": found one JSON list, expected an object on each line; type jq -c '.[]' '"+path+
				"' > rows.jsonl, and use that file")
		} else {
			require.ErrorContains(t, err, "found a JSON array, expected an object")
		}
	}
}

func TestNoSuchSource(t *testing.T) {
	dir := t.TempDir()
	for source, says := range map[string]string{
		filepath.Join(dir, "no/such/file.jsonl"): "no such file",
		"no/file.jsonl":                          "data no/file.jsonl: no such file",
		dir:                                      "no .jsonl",
		write(t, dir, "x.csv", "a,b"):            "expected .jsonl",
		write(t, dir, "sub/empty.jsonl", "\n"):   "no rows in it",
		write(t, dir, "sub/bad.jsonl", "{}\n"):   "its only row was refused",
	} {
		if source == dir {
			source = t.TempDir()
		}
		_, err := Open(ctx, source, Options{CacheDir: t.TempDir()})
		require.True(t, badinput.Is(err), "%v", err)
		require.ErrorContains(t, err, says)
	}
}

// If hashing rows is cancelled, the error is not that rows have changed.
func TestAStoppedOrigin(t *testing.T) {
	stopped, stop := context.WithCancel(ctx)
	stop()
	_, err := OriginOf(stopped, write(t, t.TempDir(), "x.jsonl", "{}\n"), Options{CacheDir: t.TempDir()})
	require.ErrorIs(t, err, context.Canceled)
}

// A folder may be reached through a link.
func TestFolderBehindALink(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "rows/a.jsonl", `{"problem":"a","tests":[{"input":"","output":"a"}]}`)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("rows", link))
	files, err := Locate(t.Context(), link, Options{})
	require.NoError(t, err)
	require.Equal(t, []File{{Path: filepath.Join(link, "a.jsonl"), Name: filepath.Join(link, "a.jsonl"), Collection: "link"}}, files)
}

// A file that is compressed, or in UTF-16, is recognised by its first bytes, whatever its name.
func TestAFileThatIsNoTextInUTF8(t *testing.T) {
	for begin, want := range map[string]string{
		"\x1f\x8b\x08\x00": "found a gzip file, expected text in UTF-8; type gunzip -c < %s > rows.jsonl, and use that file",
		"\x28\xb5\x2f\xfd": "found a zstd file",
		"\xff\xfe{\x00":    "found text in UTF-16, expected text in UTF-8; type iconv -f UTF-16 -t UTF-8 %s > rows.jsonl, and use that file",
		"\xfe\xff\x00{":    "found text in UTF-16",
	} {
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(begin+"\n"), 0o600))
		_, err := Open(t.Context(), path, Options{CacheDir: t.TempDir()})
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, strings.ReplaceAll(want, "%s", path))
	}
}
