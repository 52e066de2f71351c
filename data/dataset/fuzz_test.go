package dataset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// parquetBytes is a file of two row groups.
func parquetBytes(f *testing.F, codec compress.Codec) []byte {
	f.Helper()
	stdin, call, name := `[{"input":"1","output":"2","testtype":"stdin"}]`, `[{"input":"[1]","output":"[2]"}]`, "total"
	var out bytes.Buffer
	w := parquet.NewGenericWriter[parquetRecord](&out, parquet.MaxRowsPerRowGroup(2), parquet.Compression(codec))
	row := parquetRecord{Problem: strings.Repeat("add up. ", 40), Solutions: []string{"a", "b"}, Tests: &stdin}
	called := parquetRecord{Problem: "two", Tests: &call, Metadata: &struct {
		FuncName *string `parquet:"func_name,optional"`
	}{&name}}
	if _, err := w.Write([]parquetRecord{row, called, row}); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// The total allocations allowed for a file of some kilobytes: pages are decompressed, and the library has buffers of its own, but no
// number in a header may cause gigabytes.
const parquetAllowance = 256 << 20

var errEnoughRows = errors.New("enough rows")

// A damaged file gives rows with their positions, or an input error that names the file; memory is bounded, whatever the file claims. A
// second reading gives the same.
func FuzzParquet(f *testing.F) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
		f.Add(parquetBytes(f, codec))
	}
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 64<<10 {
			return
		}
		path := filepath.Join(t.TempDir(), "f.parquet")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		read := func() (rows []string, err error) {
			in, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			err = readParquet(in, "f.parquet", false, func(r *row, refusal error) error {
				if !strings.HasPrefix(r.where, "f.parquet row ") {
					t.Fatalf("a row is at %q", r.where)
				}
				if rows = append(rows, r.where); refusal != nil {
					rows = append(rows, refusal.Error())
				} else if p, refusal := normalise(r); refusal == nil {
					rows = append(rows, p.problem.ID)
				}
				if len(rows) > 1000 {
					return errEnoughRows
				}
				return nil
			})
			return rows, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rows, err := read()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > parquetAllowance {
			t.Fatalf("%d bytes are allocated for a file of %d", n, len(content))
		}
		if err != nil && err != errEnoughRows && (!badinput.Is(err) || !strings.Contains(err.Error(), "f.parquet")) {
			t.Fatalf("not an input error that names the file: %v", err)
		}
		again, errAgain := read()
		if (err == nil) != (errAgain == nil) || strings.Join(rows, "\n") != strings.Join(again, "\n") {
			t.Fatalf("read again it has %q, %v; before %q, %v", again, errAgain, rows, err)
		}
	})
}
