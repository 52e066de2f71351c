package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// Record is a row of a file, without interpretation.
type Record struct {
	Where string                     // the file and the line, or the row of a Parquet file
	Cells map[string]json.RawMessage // by column, without nulls
}

// Origin identifies what rows were read from.
type Origin struct {
	SHA256 string // of the hashes of the files, in order
	Commit string // on the Hub; "": local files
}

// Records calls fn with every row of a source, in order, without making problems of the rows. Of opt it uses the split, the
// collections and the Hub client. A row that cannot be parsed is an error.
func Records(ctx context.Context, source string, opt Options, fn func(Record) error) (o Origin, err error) {
	files, o, err := origin(ctx, source, opt)
	if err != nil {
		return o, err
	}
	for i := range files {
		err := readFile(ctx, files[i], true, func(r *row, refusal error) error {
			if refusal == nil {
				refusal = r.split()
			}
			var refused *Refused
			if errors.As(refusal, &refused) {
				refused.Where = r.where
				return badinput.Errorf("%w", refused)
			}
			if refusal != nil {
				return refusal
			}
			record, err := r.record()
			if err != nil {
				return err
			}
			return fn(record)
		})
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// OriginOf is the Origin that Records would return.
func OriginOf(ctx context.Context, source string, opt Options) (Origin, error) {
	_, o, err := origin(ctx, source, opt)
	return o, err
}

func origin(ctx context.Context, source string, opt Options) (files []File, o Origin, err error) {
	if files, err = Locate(ctx, source, opt); err != nil {
		return nil, o, err
	}
	h := sha256.New()
	for i := range files {
		if err := files[i].hash(ctx); err != nil {
			return nil, o, err
		}
		fmt.Fprintln(h, files[i].SHA256)
	}
	return files, Origin{SHA256: sum(h), Commit: files[0].commit}, nil
}

func (r *row) record() (Record, error) {
	record := Record{Where: r.where, Cells: make(map[string]json.RawMessage, len(r.cells))}
	for name, value := range r.cells {
		text, ok := value.(json.RawMessage)
		if !ok {
			var err error
			if text, err = jsonl.Marshal(value); err != nil {
				return record, err
			}
		}
		record.Cells[name] = text
	}
	return record, nil
}
