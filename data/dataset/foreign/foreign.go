// Package foreign recognises files that hold no rows as dataset reads them, by their names and how they begin, and says what to type.
package foreign

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// Expected names the formats that are read.
const Expected = "expected .jsonl (a row of JSON on each line), .ndjson or .parquet"

// Readable reports whether the extension of a file is that of a format that is read.
func Readable(name string) bool {
	switch path.Ext(name) {
	case ".jsonl", ".ndjson", ".parquet":
		return true
	}
	return false
}

// unpackCommands maps extensions of compressed files to the command that unpacks them.
var unpackCommands = map[string]string{".gz": "gzip -dk", ".zst": "zstd -d", ".xz": "xz -dk", ".bz2": "bzip2 -dk", ".zip": "unzip"}

// Commands that write the rows of other formats as JSON Lines. Excel begins a CSV file with a byte order mark, tests in a cell can be
// longer than Python's limit, and an empty cell is a missing field.
const (
	tableToRows = `python3 -c 'import csv, json, sys; csv.field_size_limit(1 << 30); ` +
		`[print(json.dumps({k: v for k, v in row.items() if v})) ` +
		`for row in csv.DictReader(open(sys.argv[1], encoding="utf-8-sig", newline="")%s)]' %s > rows.jsonl`
	arrowToRows = `python3 -c 'import datasets, sys; datasets.load_from_disk(sys.argv[1]).to_json("rows.jsonl")' %s`
)

// Advice says of a file that is not readable what it is, and what to type instead.
func Advice(file string) string {
	quoted, ext := display.ShellQuote(file), strings.ToLower(path.Ext(file))
	if unpack := unpackCommands[ext]; unpack != "" {
		return fmt.Sprintf("found a compressed file, %s; type %s %s, and use the unpacked file", Expected, unpack, quoted)
	}
	what, do := "unknown file format", fmt.Sprintf("if it has such rows, type cp %s rows.jsonl", quoted)
	switch ext {
	case ".parquet": // in capitals
		do = fmt.Sprintf("type cp %s rows.parquet", quoted)
	case ".csv":
		what, do = "found a table in CSV", "type "+fmt.Sprintf(tableToRows, "", quoted)
	case ".tsv":
		what, do = "found a table in TSV", "type "+fmt.Sprintf(tableToRows, `, delimiter="\t"`, quoted)
	case ".arrow":
		what, do = "found an Arrow file of datasets", "type "+fmt.Sprintf(arrowToRows, display.ShellQuote(filepath.Dir(file)))
	case ".json":
		what, do = "found one JSON value", fmt.Sprintf("type jq -c . %s > rows.jsonl", quoted)
		if beginsWithList(file) {
			what, do = "found one JSON list", fmt.Sprintf("type jq -c '.[]' %s > rows.jsonl", quoted)
		}
	}
	return fmt.Sprintf("%s, %s; %s, and use that file", what, Expected, do)
}

// beginsWithList reports whether the first character of a file, apart from white space, is that of a JSON list.
func beginsWithList(file string) bool {
	in, err := os.Open(file)
	if err != nil {
		return false
	}
	defer in.Close()
	begin := make([]byte, 4096)
	n, _ := in.Read(begin)
	return bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(begin[:n], []byte("\ufeff"))), []byte("["))
}

// Convertible are the files of a folder that are not read, but probably hold rows. A compressed file beside its unpacked one is not
// among them, nor a JSON file, which is as often about the data.
func Convertible(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		ext := path.Ext(name)
		switch lower := strings.ToLower(ext); {
		case Readable(name):
			return true
		case unpackCommands[ext] != "":
			unpacked := strings.TrimSuffix(name, ext)
			return !Readable(strings.ToLower(unpacked)) || slices.Contains(names, unpacked)
		default:
			return lower != ".csv" && lower != ".tsv" && lower != ".arrow" && !Readable(lower)
		}
	})
}

// otherContents are other contents by their first bytes, which a file of any name may have; of two that fit, the first is meant.
var otherContents = []struct{ begin, what, do string }{
	{"\x1f\x8b", "a gzip file", "gunzip -c <"},
	{"\x28\xb5\x2f\xfd", "a zstd file", "zstd -dc"},
	{"\xff\xfe\x00\x00", "text in UTF-32", "iconv -f UTF-32 -t UTF-8"},
	{"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

// CheckContent refuses a file of lines that has other contents, by its first line.
func CheckContent(first []byte, name string) error {
	for _, is := range otherContents {
		if bytes.HasPrefix(first, []byte(is.begin)) {
			return badinput.Errorf("%s: found %s, expected text in UTF-8; type %s %s > rows.jsonl, and use that file",
				name, is.what, is.do, display.ShellQuote(name))
		}
	}
	return CheckPointer(first, name)
}

// CheckPointer refuses what Git leaves in place of a large file that was not downloaded.
func CheckPointer(begin []byte, name string) error {
	if !bytes.HasPrefix(begin, []byte("version https://git-lfs.github.com/spec/")) {
		return nil
	}
	return badinput.Errorf("%s: found a pointer of Git LFS, expected the file itself; type git -C %s lfs pull", name,
		display.ShellQuote(filepath.Dir(name)))
}
