package tools

import (
	"encoding/json"
	"slices"
)

// detail is how much of a trace is shown: the number of first and last iterations of a loop, and the depth of calls.
type detail struct{ first, last, depth int }

// details are in decreasing order.
var details = []detail{{3, 2, 8}, {2, 1, 6}, {2, 1, 4}, {1, 1, 4}, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 0}}

// Steps is the trace as a list. If there are many iterations or deep calls, some are left out.
func (t *Trace) Steps() []Step { return t.folded(details[0]) }

// MarshalJSON writes an object with the steps.
func (t *Trace) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Steps  []Step `json:"steps"`
		Output string `json:"output"`
		Ended  string `json:"ended"`
		Lines  int    `json:"lines"`
	}{t.Steps(), fit(steady(t.Output), 4000), t.Ended, t.Lines})
}

func (t *Trace) folded(d detail) []Step {
	f := folding{detail: d, ends: make(map[int]int, len(t.loops))}
	for _, loop := range t.loops {
		if _, there := f.ends[loop[0]]; !there {
			f.ends[loop[0]] = loop[1]
		}
	}
	f.lines(t.steps)
	return f.steps
}

// folding turns the tree of a trace into a list, and leaves out what exceeds the detail.
type folding struct {
	detail
	ends   map[int]int // the last line of each loop, by its first
	nested int         // loops of the current frame that are open
	steps  []Step
}

// mostNested is how deep Python lets blocks be nested. It bounds the recursion, as a record may claim any number of loops.
const mostNested = 20

// lines adds the steps of a frame, those of a loop together.
func (f *folding) lines(list []*node) {
	for len(list) > 0 {
		head := list[0].Line
		last, isLoop := f.ends[head]
		if list[0].Kind != Line || !isLoop || f.nested == mostNested {
			f.step(list[0])
			list = list[1:]
			continue
		}
		end := 1
		for end < len(list) && list[end].Kind == Line && list[end].Line >= head && list[end].Line <= last {
			end++
		}
		f.nested++
		f.loop(list[:end], head)
		f.nested--
		list = list[end:]
	}
}

// loop adds the lines of a loop. An iteration begins with the line of the loop's head or, if that runs only once, as in Python's code of
// a loop without a condition, with the first line of its body.
func (f *folding) loop(list []*node, head int) {
	first, at := head, 1
	if len(list) > 1 && !slices.ContainsFunc(list[1:], func(n *node) bool { return n.Line == head }) {
		first, at = list[1].Line, 2
	}
	var rounds [][]*node
	for i, start := at, 0; i <= len(list); i++ {
		if i == len(list) || list[i].Line == first {
			rounds = append(rounds, list[start:i])
			start = i
		}
	}
	left := len(rounds) - f.first - f.last
	for i, round := range rounds {
		if left > 1 && i == f.first {
			f.skip(Step{Kind: Skip, Depth: round[0].Depth, Line: head, Count: left, Name: "rounds"})
		}
		if left > 1 && i >= f.first && i < len(rounds)-f.last {
			continue
		}
		f.step(round[0])
		f.lines(round[1:])
	}
}

func (f *folding) skip(s Step) { f.steps = append(f.steps, s) }

// step adds a step and what happened during it.
func (f *folding) step(n *node) {
	s := n.Step
	if len(n.inner) == 0 {
		f.steps = append(f.steps, s)
		return
	}
	if s.Kind != Line {
		f.steps = append(f.steps, s)
		if s.Depth > f.depth {
			f.deep(n)
			return
		}
		around := f.nested
		f.nested = 0
		f.lines(n.inner)
		f.nested = around
		return
	}
	s.Changes = nil
	f.steps = append(f.steps, s)
	most := f.first + f.last
	for i, inner := range n.inner {
		switch left := len(n.inner) - most; {
		case left > 1 && i == f.first:
			f.skip(Step{Kind: Skip, Depth: s.Depth + 1, Count: left, Name: "calls"})
		case left > 1 && i > f.first && i < len(n.inner)-f.last:
		default:
			f.step(inner)
		}
	}
	if len(n.Changes) > 0 {
		s.Kind, s.Changes = After, n.Changes
		f.steps = append(f.steps, s)
	}
}

// deep adds a call that is too deep: of its lines only their number is shown, and how it ended.
func (f *folding) deep(n *node) {
	end := n.inner[len(n.inner)-1]
	lines := count(n.inner)
	if lines > 0 {
		f.skip(Step{Kind: Skip, Depth: n.Depth, Count: lines, Name: "lines"})
	}
	if end.Kind != Line {
		f.steps = append(f.steps, end.Step)
	}
}

// count is how many lines ran.
func count(list []*node) (lines int) {
	for _, n := range list {
		if n.Kind == Line {
			lines++
		}
		lines += count(n.inner)
	}
	return lines
}
