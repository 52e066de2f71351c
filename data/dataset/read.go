package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/seed-7879b91d/grpo/data/dataset/foreign"
	"github.com/seed-7879b91d/grpo/data/dataset/native"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/openfile"
)

// readFile calls fn with every row of f, in order, and with the refusal of one that cannot be read.
func readFile(ctx context.Context, f File, keep bool, fn func(*row, error) error) error {
	in, err := openfile.Open(f.Path)
	if err != nil {
		return badinput.Errorf("read %s: %w", f.Name, err)
	}
	defer in.Close()
	emit := func(r *row, refusal error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.source, r.keep = f.Collection, keep
		return fn(r, refusal)
	}
	if f.parquet() {
		return readParquet(in, f.Name, keep, emit)
	}
	return readLines(in, f.Name, emit)
}

// readLines reads JSON Lines. It skips blank lines, which editors leave at the end. It does not parse the
// lines: one reader feeds many parsers.
func readLines(in io.Reader, name string, emit func(*row, error) error) error {
	br, begun := bufio.NewReaderSize(in, 1<<20), false
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if n == 1 {
			if err := foreign.CheckContent(line, name); err != nil {
				return err
			}
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if !begun && isList(text, br) {
				return badinput.Errorf("%s: found one JSON list, expected an object on each line; type jq -c '.[]' %s > rows.jsonl, and use that "+
					"file", name, display.ShellQuote(name))
			}
			if !begun && string(text) == "{" {
				return badinput.Errorf("%s: found a JSON object over several lines, expected each on one line; type jq -c . %s > rows.jsonl, "+
					"and use that file", name, display.ShellQuote(name))
			}
			begun = true
			r := &row{where: fmt.Sprintf("%s:%d", name, n), line: text, size: len(text)}
			if eerr := emit(r, nil); eerr != nil {
				return eerr
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// isList reports whether a file with this first line is a single JSON list, on one line or many. Otherwise each line would be
// refused for a misleading reason.
func isList(first []byte, rest *bufio.Reader) bool {
	if first[0] != '[' {
		return false
	}
	_, err := rest.Peek(1)
	return err == io.EOF || !json.Valid(first)
}

// readParquet reads the known columns, or all if they are kept, one row group after the other, so that only one page of each
// column is in memory.
func readParquet(in *os.File, name string, keep bool, emit func(*row, error) error) (err error) {
	defer func() { // the library panics on some damaged files
		if p := recover(); p != nil {
			err = badinput.Errorf("%s: damaged Parquet file: %v", name, p)
		}
	}()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	begin := make([]byte, 64)
	n, _ := in.ReadAt(begin, 0)
	if err := foreign.CheckPointer(begin[:n], name); err != nil {
		return err
	}
	if err := checkFooter(in, info.Size()); err != nil {
		return badinput.Errorf("%s: not a Parquet file, or a damaged one: %w", name, err)
	}
	file, err := parquet.OpenFile(in, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return badinput.Errorf("%s: not a Parquet file, or a damaged one: %w", name, err)
	}
	wanted, others := parquet.Group{}, []string(nil)
	for _, field := range file.Schema().Fields() {
		read := readColumns[field.Name()]
		if read || keep {
			wanted[field.Name()] = field
		}
		if !read {
			others = append(others, field.Name())
		}
	}
	if err := checkCodecs(file.Metadata(), wanted); err != nil {
		return badinput.Errorf("%s: %w", name, err)
	}
	schema, n := parquet.NewSchema("row", wanted), 0
	for _, group := range file.RowGroups() {
		rows := parquet.NewGenericRowGroupReader[map[string]any](group, schema)
		err := eachParquetRow(rows, func(values map[string]any) error {
			n++
			native.Of(schema, values)
			r, refusal := parquetRow(values)
			r.where, r.others = fmt.Sprintf("%s row %d", name, n), slices.Clip(others)
			return emit(r, refusal)
		})
		rows.Close()
		if err != nil {
			if errors.Is(err, errParquet) {
				err = badinput.Errorf("%s: after row %d: %w", name, n, err)
			}
			return err
		}
	}
	return nil
}

// checkCodecs refuses compression of the wanted columns that the library cannot read. The library itself would call such a file
// damaged.
func checkCodecs(of *format.FileMetaData, wanted parquet.Group) error {
	for _, group := range of.RowGroups {
		for _, column := range group.Columns {
			path, codec := column.MetaData.PathInSchema, column.MetaData.Codec
			if (codec == format.LZO || codec == format.Lz4) && len(path) > 0 && wanted[path[0]] != nil {
				return badinput.Errorf("column %q is compressed with %s, expected none, snappy, gzip, zstd, brotli or lz4_raw; "+
					"write the file with one of these", path[0], codec)
			}
		}
	}
	return nil
}

// checkFooter checks the length of the footer against the size of the file, because the library allocates that much before it
// reads. The layout is: magic, row groups, footer, its length, magic.
func checkFooter(in io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("it has %d bytes", size)
	}
	if _, err := in.ReadAt(end[:], size-8); err != nil {
		return err
	}
	if footer := int64(binary.LittleEndian.Uint32(end[:])); footer > size-12 {
		return fmt.Errorf("it has %d bytes, and a footer of %d", size, footer)
	}
	return nil
}

var errParquet = errors.New("damaged Parquet file")

func eachParquetRow(rows *parquet.GenericReader[map[string]any], fn func(map[string]any) error) error {
	for one := make([]map[string]any, 1); ; {
		one[0] = map[string]any{}
		n, err := rows.Read(one)
		if n == 1 {
			if err := fn(one[0]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errParquet, err)
		}
	}
}

// parquetRow converts the values of a row into cells.
func parquetRow(values map[string]any) (*row, error) {
	r := &row{cells: make(map[string]any, len(values))}
	for name, value := range values {
		switch v := withoutNaN(value, readColumns[name]).(type) {
		case nil:
		case string:
			r.cells[name], r.size = v, r.size+len(v)
		case []byte: // a text column without the string type
			r.cells[name], r.size = string(v), r.size+len(v)
		default:
			if !validText(v) {
				return r, refuse(NotText, "%q holds bytes that are not UTF-8", name)
			}
			raw, err := jsonl.Marshal(v)
			if err != nil {
				return r, refuse(BadField, "%q: %v", name, err)
			}
			r.cells[name], r.size = json.RawMessage(raw), r.size+len(raw)
		}
	}
	return r, nil
}

// withoutNaN replaces NaN, which pandas writes for a missing number, by null; and infinity in a column that is not read, because JSON
// has none.
func withoutNaN(v any, read bool) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) && !read {
			return nil
		}
	case float32:
		return withoutNaN32(v, read)
	case []any:
		for i := range v {
			v[i] = withoutNaN(v[i], read)
		}
	case map[string]any:
		for name := range v {
			v[name] = withoutNaN(v[name], read)
		}
	}
	return v
}

// withoutNaN32 is withoutNaN for float32. It keeps the type, because the shortest decimal form of a float64 is another.
func withoutNaN32(v float32, read bool) any {
	if withoutNaN(float64(v), read) == nil {
		return nil
	}
	return v
}

// validText reports whether every string inside v is UTF-8.
func validText(v any) bool {
	switch v := v.(type) {
	case string:
		return utf8.ValidString(v)
	case []any:
		for _, e := range v {
			if !validText(e) {
				return false
			}
		}
	case map[string]any:
		for _, e := range v {
			if !validText(e) {
				return false
			}
		}
	}
	return true
}
