package dataset

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/disk"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// The files of a store.
const (
	manifestName = "manifest.json"
	indexName    = "problems.jsonl"
	payloadName  = "tests.jsonl"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is a line of the index: a problem, and the place of its tests in the payload.
type entry struct {
	Problem json.RawMessage `json:"problem"`
	Offset  int64           `json:"offset"`
	Length  int64           `json:"length"`
	Count   int             `json:"tests"`
	CRC     uint32          `json:"crc32c"`
	// The kept columns of the row, if any, are on the line after the tests.
	Columns    int64  `json:"columns,omitempty"`
	ColumnsCRC uint32 `json:"columns_crc32c,omitempty"`
}

// openOrBuild opens the store in dir, and rebuilds it if it is missing or damaged.
func openOrBuild(ctx context.Context, dir string, files []File, opt Options) (*Set, error) {
	if set, err := OpenStore(dir); err == nil {
		return set, nil
	}
	scratch, done, err := atomicfile.TempDir(filepath.Join(filepath.Dir(dir), "set")) // also removes what killed processes left
	if err != nil {
		return nil, badinput.Errorf("no folder for the normalised data set: %w; choose a writable cache folder", err)
	}
	defer done()
	if err := build(ctx, scratch, files, opt); disk.IsFull(err) { // the error itself would name temporary files
		return nil, fmt.Errorf("no room in %s for the normalised data set; make room there, or set XDG_CACHE_HOME to another folder",
			filepath.Dir(dir))
	} else if err != nil {
		return nil, err
	}
	if err := replace(scratch, dir); err != nil {
		return nil, err
	}
	return OpenStore(dir)
}

// replace moves a finished store to its place, unless another process was faster: its store is the same.
func replace(scratch, dir string) error {
	if err := os.Rename(scratch, dir); err == nil {
		return atomicfile.SyncDir(filepath.Dir(dir))
	}
	if set, err := OpenStore(dir); err == nil {
		return set.Close()
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(scratch, dir)
}

// OpenStore opens a store that Open or CopyTo made; the source files are not needed.
func OpenStore(dir string) (*Set, error) {
	s := &Set{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, badinput.Errorf("%s is not a stored data set: %w", dir, err)
	}
	if err := json.Unmarshal(text, &s.manifest); err != nil {
		return nil, badinput.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	if s.manifest.Version != normalVersion {
		return nil, badinput.Errorf("%s: the stored data set is of version %d, expected %d", dir, s.manifest.Version, normalVersion)
	}
	if s.payload, err = os.Open(filepath.Join(dir, payloadName)); err != nil {
		return nil, badinput.Errorf("%s: damaged data set: %w", dir, err)
	}
	if err := s.load(); err != nil {
		s.payload.Close()
		return nil, badinput.Errorf("%s: damaged data set: %w", dir, err)
	}
	return s, nil
}

// load reads the index and checks it against the manifest.
func (s *Set) load() error {
	info, err := s.payload.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.manifest.Payload {
		return fmt.Errorf("%s has %d bytes, expected %d", payloadName, info.Size(), s.manifest.Payload)
	}
	if n := int64(s.manifest.Problems); n < 0 || n > info.Size() { // each problem takes at least a byte of the payload
		return fmt.Errorf("%s says that there are %d problems, in %d bytes", manifestName, n, info.Size())
	}
	index, err := os.Open(filepath.Join(s.dir, indexName))
	if err != nil {
		return err
	}
	defer index.Close()
	s.problems = make([]data.Problem, 0, s.manifest.Problems)
	s.entries = make([]entry, 0, s.manifest.Problems)
	h := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(index, h), 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := s.loadEntry(line); err != nil {
			return fmt.Errorf("%s:%d: %w", indexName, len(s.problems)+1, err)
		}
	}
	if got := sum(h); got != s.manifest.Index {
		return fmt.Errorf("%s hashes to %s, expected %s", indexName, got, s.manifest.Index)
	}
	return nil
}

func (s *Set) loadEntry(line []byte) error {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	p, err := problemOf(e.Problem)
	if err != nil {
		return err
	}
	e.Problem = nil // free the JSON, which is decoded now
	s.entries = append(s.entries, e)
	s.problems = append(s.problems, p.WithLoader(e.Count, stored{s, len(s.entries) - 1}))
	return nil
}

// stored fetches the tests of one problem from the payload.
type stored struct {
	set *Set
	n   int
}

func (t stored) LoadTests(ctx context.Context) ([]data.Test, error) {
	raw, err := t.set.readPayload(ctx, t.n, nil)
	if err != nil {
		return nil, err
	}
	tests, err := data.DecodeTests(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.set.payload.Name(), err)
	}
	return tests, nil
}

// LoadColumns fetches the kept columns of the row.
func (t stored) LoadColumns(ctx context.Context) (columns map[string]json.RawMessage, err error) {
	e := t.set.entries[t.n]
	if e.Columns == 0 {
		return nil, nil
	}
	raw, err := t.set.readPart(ctx, e.Offset+e.Length+1, e.Columns, e.ColumnsCRC, nil)
	if err == nil {
		err = json.Unmarshal(raw, &columns)
	}
	return columns, err
}

// readPayload reads the tests of problem n as JSON, into buf if it is large enough.
func (s *Set) readPayload(ctx context.Context, n int, buf []byte) ([]byte, error) {
	e := s.entries[n]
	return s.readPart(ctx, e.Offset, e.Length, e.CRC, buf)
}

// readPart reads length bytes of the payload, into buf if it is large enough, and checks their CRC.
func (s *Set) readPart(ctx context.Context, offset, length int64, crc uint32, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if int64(cap(buf)) < length {
		buf = make([]byte, length)
	}
	buf = buf[:length]
	if _, err := s.payload.ReadAt(buf, offset); err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	if crc32.Checksum(buf, castagnoli) != crc {
		return nil, fmt.Errorf("%s is damaged at byte %d; delete the folder %s, which is then made again", s.payload.Name(), offset, s.dir)
	}
	return buf, nil
}

// WriteNormal writes the normal form: one problem with its tests per line, in the format of own tasks.
// Reading it back gives the same set, and its SHA-256 is the fingerprint of the set.
func (s *Set) WriteNormal(ctx context.Context, w io.Writer) error {
	h := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, h), 1<<20)
	var n normalised
	var err error
	for i := range s.problems {
		if n.tests, err = s.readPayload(ctx, i, n.tests); err != nil {
			return err
		}
		if n.light, err = jsonl.Marshal(&s.problems[i]); err != nil {
			return err
		}
		if err := n.writeTo(out); err != nil {
			return err
		}
		if err := out.WriteByte('\n'); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if got := sum(h); got != s.manifest.SHA256 {
		return fmt.Errorf("%s: the stored problems hash to %s, expected %s; delete the folder, which is then made again",
			s.dir, got, s.manifest.SHA256)
	}
	return nil
}

// CopyTo copies the store into the folder dir, for OpenStore. A run with its own copy can be resumed
// whatever happens to the source. A folder that already holds this set is left unchanged.
func (s *Set) CopyTo(ctx context.Context, dir string) error {
	if there, err := OpenStore(dir); err == nil {
		defer there.Close()
		if there.manifest.SHA256 == s.manifest.SHA256 {
			return nil
		}
		return badinput.Errorf("%s holds another data set (%.12s…, not %.12s…); remove it, or use another run directory",
			dir, there.manifest.SHA256, s.manifest.SHA256)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{indexName, payloadName, manifestName} { // the manifest last: with it the store is valid
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(s.dir, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.Result(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}
