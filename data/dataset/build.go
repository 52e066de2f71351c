package dataset

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// inFlight bounds the total size of the rows that are being normalised, in bytes of source text. A row
// takes about eight times its size in memory while it is decoded and encoded.
const inFlight = 16 << 20

// build makes the store of files in the folder dir. Rows are read in order, normalised on all cores and
// written in order, so that the result does not depend on the number of cores.
func build(ctx context.Context, dir string, files []File, opt Options) error {
	w, err := newWriter(dir, files)
	if err != nil {
		return err
	}
	defer w.close()
	defer limitMemory()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	p := &pipeline{work: make(chan *job), ordered: make(chan *job, 1024), budget: newBudget(inFlight), answers: opt.AnswerMatch,
		keep: opt.KeepColumns}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(p.normalise)
	}
	go func() {
		defer close(p.ordered)
		defer close(p.work)
		if err := p.read(ctx, files); err != nil {
			cancel(err)
		}
	}()
	var done, total int64
	for _, f := range files {
		total += f.Bytes
	}
	for j := range p.ordered {
		<-j.done
		if err := w.add(j.row, j.problem, j.err); err != nil {
			cancel(err)
		}
		p.budget.give(j.row.size)
		if done += int64(j.row.size); opt.Progress != nil {
			opt.Progress(min(done, total), total)
		}
		*j = job{}
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := unchanged(ctx, files); err != nil {
		return err
	}
	return w.finish()
}

// unchanged refuses files that no longer have their fingerprints, because the store would not be that of these files.
func unchanged(ctx context.Context, files []File) error {
	for _, f := range files {
		now := f
		if err := now.hash(ctx); err != nil {
			return err
		}
		if now.SHA256 != f.SHA256 {
			return badinput.Errorf("%s changed while it was read; type the same command again when it is complete", f.Name)
		}
	}
	return nil
}

// job is a row on its way from the reader through a worker to the writer.
type job struct {
	row     *row
	refusal error // by the reader
	problem *normalised
	err     error
	done    chan struct{} // closed once problem and err are set
}

// pipeline sends every job twice: to any free worker, and, in the order of the rows, to the writer.
type pipeline struct {
	work, ordered chan *job
	budget        *budget
	answers       match.By // Options.AnswerMatch
	keep          bool
}

// read sends the rows of files to the pipeline, until one cannot be read or ctx ends.
func (p *pipeline) read(ctx context.Context, files []File) error {
	for _, f := range files {
		err := readFile(ctx, f, p.keep, func(r *row, refusal error) error {
			if err := p.budget.take(ctx, r.size); err != nil {
				return err
			}
			r.answers = p.answers
			j := &job{row: r, refusal: refusal, done: make(chan struct{})}
			p.ordered <- j // cannot block forever: the writer drains this channel to the end
			p.work <- j
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// normalise runs one worker.
func (p *pipeline) normalise() {
	for j := range p.work {
		if j.err = j.refusal; j.err == nil {
			j.problem, j.err = normalise(j.row)
		}
		close(j.done)
	}
}

// limitMemory sets a soft memory limit half a gigabyte above the present use: a page of a Parquet file may
// take hundreds of megabytes, which the garbage collector would by default let double. A lower limit of the
// process stays in force, and the old limit is restored when the last set is read.
func limitMemory() (restore func()) {
	limited.Lock()
	defer limited.Unlock()
	if limited.by++; limited.by == 1 {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		limited.before = debug.SetMemoryLimit(-1)
		debug.SetMemoryLimit(min(limited.before, int64(now.Sys-now.HeapReleased)+512<<20))
	}
	return func() {
		limited.Lock()
		defer limited.Unlock()
		if limited.by--; limited.by == 0 {
			debug.SetMemoryLimit(limited.before)
		}
	}
}

// limited counts the sets being read, and keeps the memory limit from before the first.
var limited struct {
	sync.Mutex
	by     int
	before int64
}

// budget is a counting semaphore over bytes. A row larger than all of it must be alone.
type budget struct {
	mu         sync.Mutex
	free, size int
	freed      chan struct{}
}

func newBudget(size int) *budget {
	return &budget{free: size, size: size, freed: make(chan struct{}, 1)}
}

// take waits for n bytes. Only one goroutine may call it.
func (b *budget) take(ctx context.Context, n int) error {
	n = min(n, b.size)
	for {
		b.mu.Lock()
		if b.free >= n {
			b.free -= n
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *budget) give(n int) {
	b.mu.Lock()
	b.free += min(n, b.size)
	b.mu.Unlock()
	select {
	case b.freed <- struct{}{}:
	default:
	}
}

// writer writes a store: problems.jsonl, tests.jsonl, and at the end manifest.json.
type writer struct {
	dir            string
	manifest       Manifest
	index, payload *os.File
	indexW, testsW *bufio.Writer
	normal, indexH hash.Hash
	seen           seen
	near           map[string]string // for unread columns the known name they resemble, or ""
}

func newWriter(dir string, files []File) (*writer, error) {
	w := &writer{
		dir: dir, normal: sha256.New(), indexH: sha256.New(), seen: newSeen(), near: map[string]string{},
		manifest: Manifest{Version: normalVersion, Files: files, Unread: map[string]int{}, Misspelt: map[string]string{}},
	}
	var err error
	if w.index, err = os.Create(filepath.Join(dir, indexName)); err != nil {
		return nil, err
	}
	if w.payload, err = os.Create(filepath.Join(dir, payloadName)); err != nil {
		w.index.Close()
		return nil, err
	}
	w.indexW = bufio.NewWriterSize(io.MultiWriter(w.index, w.indexH), 1<<18)
	w.testsW = bufio.NewWriterSize(w.payload, 1<<20)
	return w, nil
}

func (w *writer) close() {
	w.index.Close()
	w.payload.Close()
}

// add stores a problem, or records the refusal if err is one.
func (w *writer) add(r *row, n *normalised, err error) error {
	for _, column := range r.others {
		w.manifest.Unread[column]++
		if near := w.resembled(r, column); near != "" {
			w.manifest.Misspelt[column] = near
		}
	}
	if err == nil {
		err = w.seen.add(n, r.where)
	}
	var refused *Refused
	if errors.As(err, &refused) {
		refused.Where = r.where
		w.manifest.Refused = append(w.manifest.Refused, *refused)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.where, err)
	}
	n.writeTo(w.normal) // a hash never fails
	w.normal.Write([]byte{'\n'})
	e := entry{
		Problem: n.light, Offset: w.manifest.Payload, Length: int64(len(n.tests)),
		Count: n.problem.NumTests, CRC: crc32.Checksum(n.tests, castagnoli),
		Columns: int64(len(n.columns)), ColumnsCRC: crc32.Checksum(n.columns, castagnoli),
	}
	line, err := jsonl.Marshal(&e)
	if err != nil {
		return err
	}
	w.indexW.Write(append(line, '\n')) // Flush reports the first error
	w.testsW.Write(n.tests)
	w.testsW.WriteByte('\n')
	w.manifest.Payload += int64(len(n.tests)) + 1
	if len(n.columns) > 0 {
		w.testsW.Write(n.columns)
		w.testsW.WriteByte('\n')
		w.manifest.Payload += int64(len(n.columns)) + 1
	}
	w.manifest.Problems++
	w.manifest.Tests += n.problem.NumTests
	return nil
}

// finish writes the manifest, which makes the folder a valid store.
func (w *writer) finish() error {
	for _, f := range []struct {
		buffer *bufio.Writer
		file   *os.File
	}{{w.indexW, w.index}, {w.testsW, w.payload}} {
		if err := f.buffer.Flush(); err != nil {
			return fmt.Errorf("write %s: %w", f.file.Name(), err)
		}
		if err := f.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", f.file.Name(), err)
		}
	}
	w.manifest.SHA256, w.manifest.Index = sum(w.normal), sum(w.indexH)
	text, err := json.MarshalIndent(&w.manifest, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(w.dir, manifestName), append(text, '\n'))
}

// problemOf decodes the problem of an index entry, which has no tests.
func problemOf(light []byte) (p data.Problem, err error) {
	err = json.Unmarshal(light, &p)
	return p, err
}
