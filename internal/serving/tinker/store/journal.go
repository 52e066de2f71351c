package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
)

// Record is an entry of a journal: an accepted request, or the result of one.
type Record struct {
	Kind   string `json:"k"` // of the request, or Done
	Seq    int64  `json:"n"`
	Sum    string `json:"h,omitempty"` // of a request: SHA-256 of its content
	Status string `json:"s,omitempty"` // of a result
	Type   string `json:"t,omitempty"` // content type of a result
	Body   []byte `json:"-"`
}

// Done is the kind of a result's record.
const Done = "done"

// Journal is an append-only file of records, which Rewrite compacts. A record that was only partly written before a crash
// is cut off: it was never acknowledged.
type Journal struct {
	path string
	f    *disk.File // nil: closed by CloseIdle
	Size int64
}

var table = crc32.MakeTable(crc32.Castagnoli)

// head is the size of a record's header: length, checksum of the length, checksum of the record.
const head = 12

// Journal opens the journal of a model, and calls each for every record in it.
func (r *Run) Journal(each func(Record)) (*Journal, error) {
	path := filepath.Join(r.dir, "journal")
	if err := atomicfile.RemoveStale(r.dir); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole, err := parse(text, each)
	if err != nil {
		return nil, badinput.Errorf("%s: %w", path, err)
	}
	j := &Journal{path: path, Size: int64(whole)}
	if j.f, err = disk.Append(path); err != nil {
		return nil, err
	}
	if whole < len(text) {
		err = errors.Join(j.f.Truncate(j.Size), j.f.Sync())
	}
	if err = errors.Join(err, disk.SyncFolder(r.dir)); err != nil { // make the truncation durable before new records follow
		return nil, errors.Join(err, j.f.Close())
	}
	return j, nil
}

// parse parses records, and returns how many bytes of the text are complete records. A damaged record before the last is an
// error, as those after it were acknowledged.
func parse(text []byte, each func(Record)) (whole int, err error) {
	for rest := text; len(rest) > 0; rest = text[whole:] {
		if len(rest) < head {
			return whole, nil
		}
		n := int64(binary.LittleEndian.Uint32(rest))
		known := crc32.Checksum(rest[:4], table) == binary.LittleEndian.Uint32(rest[4:])
		switch {
		case !known && len(bytes.Trim(rest, "\x00")) == 0: // the file was extended, but the text not written yet
			return whole, nil
		case !known:
			return whole, damagedRecord(whole)
		case n > int64(len(rest)-head):
			return whole, nil
		}
		payload := rest[head : head+n]
		last := len(rest) == head+len(payload)
		var rec Record
		line, body, _ := bytes.Cut(payload, []byte{'\n'})
		damaged := crc32.Checksum(payload, table) != binary.LittleEndian.Uint32(rest[8:]) || json.Unmarshal(line, &rec) != nil
		switch {
		case damaged && last:
			return whole, nil
		case damaged:
			return whole, damagedRecord(whole)
		}
		rec.Body = bytes.Clone(body)
		each(rec)
		whole += head + len(payload)
	}
	return whole, nil
}

func damagedRecord(at int) error {
	return badinput.Errorf("the record at byte %d is damaged; the model cannot be trained on, its checkpoints can", at)
}

func encode(r Record) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b := make([]byte, head, head+len(line)+1+len(r.Body))
	b = append(append(append(b, line...), '\n'), r.Body...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-head))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[:4], table))
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[head:], table))
	return b, nil
}

// ErrUnwritten is the error of a record that was not added as the disk is full. The journal is unchanged.
var ErrUnwritten = errors.New("the journal could not be written")

// Append adds a record; it is durable after the next Sync. A partly added record is taken back.
func (j *Journal) Append(r Record) error {
	b, err := encode(r)
	if err != nil {
		return err
	}
	if err := j.wake(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	if _, err := j.f.Write(b); err != nil {
		if cut := j.f.Truncate(j.Size); cut != nil {
			return errors.Join(err, cut)
		}
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	j.Size += int64(len(b))
	return nil
}

// Sync makes all records durable.
func (j *Journal) Sync() error {
	if j.f == nil {
		return nil
	}
	return j.f.Sync()
}

// CloseIdle syncs and closes the file until the next use, as a store may have more models than a process may have open files.
func (j *Journal) CloseIdle() error {
	if j.f == nil {
		return nil
	}
	err := errors.Join(j.f.Sync(), j.f.Close())
	j.f = nil
	return err
}

// wake opens the file again if CloseIdle has closed it.
func (j *Journal) wake() error {
	if j.f != nil {
		return nil
	}
	f, err := disk.Append(j.path)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size != j.Size {
		err = fmt.Errorf("%s has %d bytes, and had %d", j.path, size, j.Size)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.f = f
	return nil
}

// Rewrite replaces all records. After ErrUnwritten the journal is unchanged.
func (j *Journal) Rewrite(records []Record) error {
	var text []byte
	for _, r := range records {
		b, err := encode(r)
		if err != nil {
			return err
		}
		text = append(text, b...)
	}
	if err := j.wake(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	if err := atomicfile.WriteBytes(j.path, text); err != nil && !j.f.Replaced() {
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	} else if err != nil {
		return err
	}
	f, err := disk.Append(j.path)
	if err != nil {
		return err
	}
	err = j.f.Close()
	j.f, j.Size = f, int64(len(text))
	return err
}

// Close closes the file.
func (j *Journal) Close() error { return j.CloseIdle() }
