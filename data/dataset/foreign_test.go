package dataset

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/data/dataset/foreign"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/notice"
)

// A file of another format is refused with what to type; for a table, the typed command makes rows that are read.
func TestOtherFormatsAreConverted(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, says string }{
		"list.json":    {"\ufeff\n [{}]", "found one JSON list, " + foreign.Expected + "; type jq -c '.[]' %s > rows.jsonl, and use that file"},
		"value.json":   {"{}\n{}\n", "found one JSON value, " + foreign.Expected + "; type jq -c . %s > rows.jsonl, and use that file"},
		"rows.txt":     {"{}", "unknown file format, " + foreign.Expected + "; if it has such rows, type cp %s rows.jsonl, and use that file"},
		"ROWS.PARQUET": {"", "type cp %s rows.parquet, and use that file"},
		"rows.JSONL":   {"{}", "type cp %s rows.jsonl, and use that file"},
		"gone.arrow":   {"", "found an Arrow file of datasets"},
		"a.csv":        {"\ufeffprompt,answer,match,tolerance\r\n\"a, b\",1,exact,\r\n", "found a table in CSV"},
		"a.tsv":        {"prompt\tanswer\tmatch\na, b\t1\texact\n", "found a table in TSV"},
	} {
		path := write(t, dir, name, c.text)
		_, err := Open(t.Context(), path, Options{CacheDir: t.TempDir()})
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, "data "+path+": ")
		require.ErrorContains(t, err, strings.ReplaceAll(c.says, "%s", path))
		if !strings.Contains(c.says, "table") {
			continue
		}
		_, typed, _ := strings.Cut(err.Error(), "; type ")
		typed, _, _ = strings.Cut(typed, ", and use that file")
		shell := exec.Command("sh", "-c", typed)
		shell.Dir = t.TempDir()
		out, err := shell.CombinedOutput()
		require.NoError(t, err, "%s", out)
		set := open(t, filepath.Join(shell.Dir, "rows.jsonl"), Options{Strict: true})
		require.Len(t, set.Problems(), 1)
		require.Equal(t, "a, b", set.Problems()[0].Statement)
	}
}

// Objects over several lines, text in UTF-32 and pointers of Git LFS are recognised by how they begin.
func TestContentsThatAreNoRows(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n"
	for _, c := range []struct{ name, text, says string }{
		{"x.jsonl", "\n{\n \"prompt\": \"p\"\n}\n",
			"found a JSON object over several lines, expected each on one line; type jq -c . %s > rows.jsonl"},
		{"x.jsonl", "\xff\xfe\x00\x00{\x00\x00\x00", "found text in UTF-32, expected text in UTF-8; type iconv -f UTF-32"},
		{"x.jsonl", pointer, "found a pointer of Git LFS, expected the file itself; type git -C %d lfs pull"},
		{"x.parquet", pointer, "found a pointer of Git LFS, expected the file itself; type git -C %d lfs pull"},
	} {
		path := write(t, t.TempDir(), c.name, c.text)
		_, err := Open(t.Context(), path, Options{CacheDir: t.TempDir()})
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, strings.NewReplacer("%s", path, "%d", filepath.Dir(path)).Replace(c.says))
	}
}

// What a folder has besides the files that are read is reported, if it may have been meant as data.
func TestWhatIsNotReadOfAFolder(t *testing.T) {
	row := `{"problem":"a","tests":[{"input":"","output":"a"}]}` + "\n"
	for _, c := range []struct {
		files []string
		says  []string
	}{
		{[]string{"a.jsonl", "README.md", "dataset_info.json", "a.jsonl.gz", "b.log.gz"}, nil},
		{[]string{"train.jsonl", "test.jsonl"}, nil},
		{[]string{"train.jsonl", "more.jsonl", "most.jsonl"},
			[]string{"more.jsonl is not read, like 1 more: its name has no split, and other names have; the split all reads every file"}},
		{[]string{"a.jsonl", "b.jsonl.gz"}, []string{"b.jsonl.gz is not read: found a compressed file"}},
		{[]string{"a.jsonl", "sub/b.csv"}, []string{"sub/b.csv is not read: found a table in CSV"}},
	} {
		dir, heard := t.TempDir(), []string(nil)
		for _, name := range c.files {
			write(t, dir, name, row)
		}
		listening := notice.WithHandler(t.Context(), func(text string) { heard = append(heard, text) })
		_, err := Locate(listening, dir, Options{})
		require.NoError(t, err)
		require.Len(t, heard, len(c.says), c.files)
		for i, says := range c.says {
			require.Contains(t, heard[i], "data "+dir+": "+says)
		}
		heard = nil
		require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "link")))
		_, err = Locate(listening, dir, Options{Split: "all"})
		require.NoError(t, err)
		require.Contains(t, heard, "data "+dir+": link is not read: it is a link to a folder; name that folder, or link its files")
	}
}

// Errors about a folder without the wanted files, and about a name that is no file, say what there is.
func TestWhatThereIsInstead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "dev/api-dev.jsonl", "{}")
	write(t, dir, "dev/web.jsonl", "{}")
	write(t, dir, "packed/a.jsonl.gz", "")
	link := filepath.Join(dir, "link.jsonl")
	require.NoError(t, os.Symlink("gone.jsonl", link))
	for source, says := range map[string]string{
		filepath.Join(dir, "dev"): `no split "train"; it has validation, and files such as web.jsonl without one in the name; ` +
			"the split all reads every file",
		filepath.Join(dir, "packed"):         "no .jsonl, .ndjson or .parquet file in it; a.jsonl.gz: found a compressed file",
		link:                                 "no such file; it is a link to gone.jsonl, which is not there",
		filepath.Join(dir, "*.jsonl"):        "no such file; a source is one file, or one folder of files",
		dir + "/a.jsonl," + dir + "/b.jsonl": "no such file; a source is one file, or one folder of files",
	} {
		_, err := Locate(context.Background(), source, Options{})
		require.True(t, badinput.Is(err))
		require.ErrorContains(t, err, says)
	}
}
