package report

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

// Latest is the newest step as data for a page that shows the steps before: the values for its charts, and the progress for its
// headline.
type Latest struct {
	Step   int                `json:"step"`
	Title  string             `json:"title"`
	Steps  string             `json:"steps"`
	Charts map[string][]Value `json:"charts"` // by title, in the order of curves

	lines []byte // that it was read from
}

// Value is a curve's value at a step, with the ends of its interval if there is one; null is unknown.
type Value struct {
	Name string     `json:"name"`
	Text string     `json:"text"`
	At   []*float64 `json:"at"`
}

// TailReader reads the last steps of a run from the ends of its files, so that the cost of a step does not grow with the run.
type TailReader struct {
	Dir, Name string

	about run       // from its documents
	mark  [2]string // the version of the documents
	known []Latest
}

// How much is read: steps, and bytes.
const (
	mostLatest = 4
	mostEnd    = 32 << 10
)

// Read returns those of the last steps, in order, that are new or have more lines than at the previous call.
func (e *TailReader) Read() (fresh []Latest, err error) {
	if err := e.readAbout(); err != nil {
		return nil, err
	}
	steps, err := lastSteps(filepath.Join(e.Dir, "metrics.jsonl"))
	if err != nil {
		return nil, err
	}
	times, err := lastSteps(filepath.Join(e.Dir, "train_log.jsonl"))
	if err != nil {
		return nil, err
	}
	last := e.known
	e.known = nil
	for _, s := range steps {
		var timed []byte
		if i := slices.IndexFunc(times, func(t numbered) bool { return t.step == s.step }); i >= 0 {
			timed = times[i].line
		}
		lines := slices.Concat(s.line, []byte("\n"), timed)
		i := slices.IndexFunc(last, func(l Latest) bool { return l.Step == s.step && bytes.Equal(l.lines, lines) })
		if i >= 0 {
			e.known = append(e.known, last[i])
			continue
		}
		l := e.latest(s.line, timed)
		l.lines = lines
		e.known, fresh = append(e.known, l), append(fresh, l)
	}
	return fresh, nil
}

// readAbout reads the documents again if they have changed.
func (e *TailReader) readAbout() error {
	var mark [2]string
	for i, name := range []string{"config.json", "manifest.json"} {
		if info, err := os.Stat(filepath.Join(e.Dir, name)); err == nil {
			mark[i] = strconv.FormatInt(info.Size(), 10) + info.ModTime().String()
		}
	}
	if mark == e.mark {
		return nil
	}
	e.about = run{name: e.Name}
	if err := e.about.readDocuments(e.Dir); err != nil {
		return err
	}
	e.mark, e.known = mark, nil
	return nil
}

// latest makes the data of a step, as a page of that step alone would show it.
func (e *TailReader) latest(line, timed []byte) Latest {
	s := unknownStep()
	understand(line, &s)
	if timed != nil {
		understand(timed, &s.timing)
	}
	s = s.settle()
	s.timing = s.timing.settle()
	r := e.about
	r.steps = []step{s}
	l := Latest{Step: s.Step, Title: r.title(), Steps: r.progress(), Charts: map[string][]Value{}}
	for _, section := range r.ofSteps(evenly([]int{s.Step})) {
		for _, p := range section.plots {
			l.Charts[p.title] = p.only()
		}
	}
	return l
}

// only are the values of a plot with a single step.
func (p plot) only() []Value {
	out := make([]Value, len(p.series))
	for i, s := range p.series {
		out[i] = Value{s.name, s.format(s.values[0]), []*float64{orNull(s.values[0])}}
		if s.low != nil {
			out[i].At = append(out[i].At, orNull(s.low[0]), orNull(s.high[0]))
		}
	}
	return out
}

func orNull(v float64) *float64 {
	if v != v || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// numbered is the line of a step.
type numbered struct {
	step int
	line []byte
}

// lastSteps are the last steps in a log, in order. A line replaces earlier lines of the same or a later step.
func lastSteps(path string) (steps []numbered, err error) {
	lines, err := jsonl.Tail(path, mostEnd)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, line := range slices.Backward(lines) {
		step, kind := 0, false
		whole := jsonl.EachMember(line, func(name, value []byte) {
			switch string(name) {
			case "step":
				step, _ = strconv.Atoi(string(value))
			case "kind":
				kind = true
			}
		})
		if !whole || kind || step < 1 || len(steps) > 0 && step >= steps[len(steps)-1].step {
			continue
		}
		if steps = append(steps, numbered{step, line}); len(steps) == mostLatest {
			break
		}
	}
	slices.Reverse(steps)
	return steps, err
}
