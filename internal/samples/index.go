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

// Index is made of the files of a run as they grow. It may be used by several at once.
type Index struct {
	dir  string
	keep bool // it is written down beside the files

	mu       sync.Mutex
	parts    [len(files)]part
	problems []string
	byName   map[string]int32
	faults   []Fault
	faulty   int
	groups   []Group // of all parts, by step; nil where that is to be made anew
	err      error
	kept     int64         // bytes of the files in what is written down
	busy     chan struct{} // closed when the pass that goes on ends; nil: none does
	ctx      context.Context
	stop     context.CancelFunc
	ended    sync.WaitGroup
}

// part is what is known of a file.
type part struct {
	groups []Group
	read   int64 // as far as groups go
	state  state
}

// state is a file as it was when somebody looked.
type state struct {
	size     int64
	modified int64 // in nanoseconds
}

// worthKeeping is from which size of a run's files on an index is written down. What is smaller is read in no time.
const worthKeeping = 16 << 20

// Open opens the index of the run in dir. One that is written down beside the files is taken where it is of them; keep says that it may
// be written, which is left out where that cannot be.
func Open(dir string, keep bool) *Index {
	x := &Index{dir: dir, keep: keep, byName: map[string]int32{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	x.load()
	return x
}

// Close ends what goes on.
func (x *Index) Close() {
	x.stop()
	x.ended.Wait()
}

// View looks at the files, and gives what is known of them: all, where that takes no longer than patience. What is not known then is
// read while nobody waits.
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

// look sees whether a file is another than it was, and begins to read it. It gives what is closed when that is done; nil: nothing is new.
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
	worth := failed == nil && x.read() >= worthKeeping && x.read()-x.kept > x.kept/8
	x.mu.Unlock()
	if worth && x.keep {
		x.save()
	}
	x.mu.Lock()
	close(x.busy)
	x.busy = nil
	x.mu.Unlock()
}

// forget begins anew, since the files are not those that were read. x.mu is held.
func (x *Index) forget() {
	x.parts, x.problems, x.byName = [len(files)]part{}, nil, map[string]int32{}
	x.faults, x.faulty, x.groups, x.kept = nil, 0, nil, 0
}

// read is how many bytes of the files are known. x.mu is held.
func (x *Index) read() (n int64) {
	for _, p := range x.parts {
		n += p.read
	}
	return n
}

// goesOn tells whether the files begin with what was read. One of the same size that was written to since may be another.
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

// ends tells whether the last group that was read stands where it was.
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

// extend reads what a file has beyond what is known.
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

// reopen is where to read on. The last group of lines may have had more completions to come, and is read again.
func (x *Index) reopen(i int) (from int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := &x.parts[i]
	if n := len(p.groups); i != packed && n > 0 && p.groups[n-1].At+p.groups[n-1].Size == p.read {
		p.read = p.groups[n-1].At
		p.groups = p.groups[: n-1 : n-1] // who looks has the longer one
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

// intern is the number of a problem; -1 where there is no room for more groups.
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
