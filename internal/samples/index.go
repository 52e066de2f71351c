package samples

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Index is an index of a run's completions, which grows with the files. It is safe for concurrent use.
type Index struct {
	dir  string
	keep bool // may be saved beside the files

	mu       sync.Mutex
	parts    [len(files)]part
	problems []string
	byName   map[string]int32
	faults   []Fault
	faulty   int
	groups   []Group // of all parts, by step; nil if it must be rebuilt
	err      error
	kept     int64         // how many bytes of the files the saved index covers
	busy     chan struct{} // closed when the current pass ends; nil: none is running
	ctx      context.Context
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

// part is what is known of one file.
type part struct {
	groups []Group
	read   int64 // offset up to which groups are indexed
	state  state
}

// state identifies the version of a file.
type state struct {
	size     int64
	modified int64 // in nanoseconds
}

// savedFrom is the size of a run's files from which on the index is saved. Smaller ones are read in no time.
const savedFrom = 16 << 20

// Open opens the index of the run in dir, using a saved one if it matches the files. keep lets it be saved; if that fails, it is not.
func Open(dir string, keep bool) *Index {
	x := &Index{dir: dir, keep: keep, byName: map[string]int32{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	x.load()
	return x
}

// Close stops a pass.
func (x *Index) Close() {
	x.stop()
	x.ended.Wait()
}

// View checks the files for changes, and returns what is indexed: everything, if that takes no longer than patience. The rest is
// read in the background.
func (x *Index) View(ctx context.Context, patience time.Duration) *View {
	if busy := x.look(); busy != nil {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		select {
		case <-busy:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	return x.view()
}

// look starts a pass if the files have changed. The channel is closed when it is done; nil: nothing changed.
func (x *Index) look() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy != nil {
		return x.busy
	}
	var now [len(files)]state
	same := x.err == nil || errors.Is(x.err, errFull)
	for i, name := range files {
		now[i] = stateOf(filepath.Join(x.dir, name))
		same = same && now[i] == x.parts[i].state
	}
	if same || x.ctx.Err() != nil {
		return nil
	}
	x.busy = make(chan struct{})
	x.ended.Add(1)
	go x.pass(now)
	return x.busy
}

func stateOf(path string) (s state) {
	if info, err := os.Stat(path); err == nil {
		s.size, s.modified = info.Size(), info.ModTime().UnixNano()
	}
	return s
}

// pass reads what is new.
func (x *Index) pass(now [len(files)]state) {
	defer x.ended.Done()
	if !x.goesOn(now) {
		x.mu.Lock()
		x.forget()
		x.mu.Unlock()
	}
	var failed error
	for i := range files {
		failed = errors.Join(failed, x.extend(i, now[i]))
	}
	x.mu.Lock()
	x.err = failed
	worth := failed == nil && x.read() >= savedFrom && x.read()-x.kept > x.kept/8
	x.mu.Unlock()
	if worth && x.keep {
		x.save()
	}
	x.mu.Lock()
	close(x.busy)
	x.busy = nil
	x.mu.Unlock()
}

// forget resets the index, as the files were replaced; x.mu is held.
func (x *Index) forget() {
	x.parts, x.problems, x.byName = [len(files)]part{}, nil, map[string]int32{}
	x.faults, x.faulty, x.groups, x.kept = nil, 0, nil, 0
}

// read is how many bytes of the files are indexed; x.mu is held.
func (x *Index) read() (n int64) {
	for _, p := range x.parts {
		n += p.read
	}
	return n
}

// goesOn reports whether the files only grew since they were read. One of the same size but modified may be another.
func (x *Index) goesOn(now [len(files)]state) bool {
	for i, p := range x.parts {
		switch {
		case now[i] == p.state, p.read == 0:
		case now[i].size <= p.state.size:
			return false
		case !x.ends(i):
			return false
		}
	}
	return true
}

// ends reports whether the last group that was read is still in its place.
func (x *Index) ends(i int) bool {
	x.mu.Lock()
	n := len(x.parts[i].groups)
	if n == 0 {
		x.mu.Unlock()
		return false
	}
	last, name := x.parts[i].groups[n-1], x.problems[x.parts[i].groups[n-1].Problem]
	x.mu.Unlock()
	found := false
	err := x.lines(last, func(line []byte) bool {
		l, why := skim(line)
		found = why == "" && l.step == last.Step && l.group == last.Number && named(l.problem) == name
		return false
	})
	return err == nil && found
}

// extend indexes the part of a file that is new.
func (x *Index) extend(i int, now state) error {
	if now == x.parts[i].state {
		return nil
	}
	f, err := os.Open(filepath.Join(x.dir, files[i]))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	s := &scan{ctx: x.ctx, file: uint8(i), intern: x.intern,
		fault: func(f Fault) { x.faulted(i, f) },
		found: func(groups []Group, read int64) { x.found(i, groups, read) }}
	from := x.reopen(i)
	s.behind = from
	if i == packed {
		err = s.frames(f, from, now.size)
	} else {
		err = s.plain(f, from, now.size)
	}
	if err == nil || errors.Is(err, errFull) {
		x.mu.Lock()
		x.parts[i].state = now
		x.mu.Unlock()
	}
	return err
}

// reopen drops the last group of lines, to which completions may have been added, and returns where to read from.
func (x *Index) reopen(i int) (from int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := &x.parts[i]
	if n := len(p.groups); i != packed && n > 0 && p.groups[n-1].At+p.groups[n-1].Size == p.read {
		p.read = p.groups[n-1].At
		p.groups = p.groups[: n-1 : n-1] // a View may share the old slice
		x.groups = nil
	}
	return p.read
}

func (x *Index) found(i int, groups []Group, read int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parts[i].groups, x.parts[i].read = append(x.parts[i].groups, groups...), read
	if len(groups) > 0 {
		x.groups = nil
	}
}

// intern returns the number of a problem; -1 if there is no room for more.
func (x *Index) intern(quoted []byte) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.parts[0].groups)+len(x.parts[1].groups) >= mostGroups {
		return -1
	}
	if n, ok := x.byName[text(quoted)]; ok {
		return n
	}
	name, n := named(quoted), int32(len(x.problems))
	x.problems = append(x.problems, name)
	x.byName[string(quoted)] = n
	return n
}

func (x *Index) faulted(i int, f Fault) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f.File = files[i]
	if x.faulty++; len(x.faults) < mostFaults {
		x.faults = append(x.faults, f)
	}
}

func (x *Index) view() *View {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.groups == nil {
		x.groups = merged(x.parts[0].groups, x.parts[1].groups)
	}
	v := &View{Groups: x.groups, Problems: x.problems, Faults: x.faults, Faulty: x.faulty, Done: x.read(), Building: x.busy != nil,
		Err: x.err, index: x}
	for _, name := range files {
		v.Total += stateOf(filepath.Join(x.dir, name)).size
	}
	return v
}
