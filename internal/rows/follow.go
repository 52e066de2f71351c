package rows

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"
)

// Follower reads the record of a run, and later what was added to it.
type Follower struct {
	Run

	starts  []Start
	trained int // rows or problems, as far as recorded
	active  int // index of the start whose process wrote the last line; −1 before the first
	metrics growing
	log     growing
	clocks  map[int][]Cell // lines of train_log.jsonl, by step
	passed  time.Duration  // duration of the steps since the start
	last    int            // step
}

// Open opens the record of the run in a directory.
func Open(dir string) (*Follower, error) {
	run, starts, trained, err := past(dir)
	return &Follower{Run: run, starts: starts, trained: trained, active: -1, clocks: map[int][]Cell{},
		metrics: growing{path: filepath.Join(dir, "metrics.jsonl")}, log: growing{path: filepath.Join(dir, "train_log.jsonl")}}, err
}

// ErrTruncated is the error of a record that became shorter, by a rollback: read it from the beginning.
var ErrTruncated = errors.New("the record was cut")

// Follow passes new rows to a sink.
func (f *Follower) Follow(to Sink) error {
	if err := f.log.lines(f.clock); err != nil {
		return err
	}
	return f.metrics.lines(func(line []byte) error { return f.line(line, to) })
}

// Empty reports whether nothing is recorded yet.
func (f *Follower) Empty() bool { return f.active < 0 }

// Done tells a sink that the run is complete, if it has all the steps of its last settings.
func (f *Follower) Done(to Sink) error {
	if want := f.starts[len(f.starts)-1].steps(f.trained); f.active >= 0 && f.last == want {
		return to.Done(f.now())
	}
	return nil
}

func (f *Follower) clock(line []byte) error {
	var is struct{ Step int }
	if err := json.Unmarshal(line, &is); err != nil {
		return err
	}
	cells, err := Flatten(line, true)
	f.clocks[is.Step] = cells
	return err
}

// line handles a line of metrics.jsonl.
func (f *Follower) line(line []byte, to Sink) error {
	var is struct {
		Kind string
		Step int
	}
	if err := json.Unmarshal(line, &is); err != nil {
		return err
	}
	cells, err := Flatten(line, true)
	if err != nil {
		return err
	}
	step, prefix := is.Kind == "", Evaluations
	if step {
		cells, prefix = Meaningful(cells), Steps
	}
	if err := f.begin(is.Step, step, to); err != nil {
		return err
	}
	f.last = is.Step
	row := Row{Step: is.Step, Cells: named(prefix, cells)}
	if step {
		clock := f.clocks[is.Step]
		delete(f.clocks, is.Step)
		for _, c := range clock {
			if seconds, ok := c.Number(); ok && c.Name == "total_s" {
				f.passed += time.Duration(seconds * float64(time.Second))
			}
		}
		row.Cells = append(row.Cells, named(Timing, clock)...)
	}
	row.Time = f.now()
	return to.Row(row)
}

// begin passes on the start whose process made a step, unless it was passed before.
func (f *Follower) begin(step int, made bool, to Sink) error {
	by := max(f.active, 0)
	for i, s := range f.starts {
		if s.After < step || !made && f.active < 0 && s.After == step {
			by = max(by, i)
		}
	}
	if by == f.active {
		return nil
	}
	s := f.starts[by]
	if s.Changed = s.Settings; f.active >= 0 {
		s.Changed = differences(f.starts[f.active].Settings, s.Settings)
	}
	if f.active >= 0 && s.Time.Before(f.now()) { // the clock was set back
		s.Time = f.now()
	}
	f.starts[by].Time = s.Time
	f.active, f.passed = by, 0
	return to.Start(s)
}

func (f *Follower) now() time.Time { return f.starts[f.active].Time.Add(f.passed) }

// named prefixes the names of cells, except those that identify the row.
func named(prefix string, cells []Cell) []Cell {
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return c.Name == "step" || c.Name == "kind" })
	for i := range cells {
		cells[i].Name = prefix + cells[i].Name
	}
	return cells
}
