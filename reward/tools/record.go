package tools

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-7879b91d/grpo/reward/sandbox"
)

// Trace is what a program did, line by line.
type Trace struct {
	// Lines is how many lines ran.
	Lines int
	// Output is what the program printed, and Ended how it ended.
	Output, Ended string

	source []string
	loops  [][2]int
	steps  []*node
}

// node is a step with the steps that happened during it: the calls of a line, the lines of a call.
type node struct {
	Step
	inner []*node
}

// Kind says what a step is.
type Kind string

const (
	Line   Kind = "line"   // a line ran; Changes are what it did
	After  Kind = "after"  // the changes of a line that called something; it follows the steps of the calls
	Call   Kind = "call"   // a function was called; Changes are its arguments
	Resume Kind = "resume" // a generator was resumed
	Return Kind = "return" // a function returned Value
	Yield  Kind = "yield"  // a generator yielded Value
	Raise  Kind = "raise"  // the exception Value was raised
	Leave  Kind = "leave"  // an exception left a function
	Skip   Kind = "skip"   // Count rounds of the loop at Line, calls or lines are left out; Name says which of the three
)

// Step is a line of a trace.
type Step struct {
	Kind    Kind     `json:"kind"`
	Depth   int      `json:"depth"` // of calls
	Line    int      `json:"line,omitempty"`
	Code    string   `json:"code,omitempty"` // the source of the line, with its indentation
	Name    string   `json:"name,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Value   string   `json:"value,omitempty"`
	Count   int      `json:"count,omitempty"`
}

// Change is a new value of a variable, an element or an attribute. Old is set if both values are numbers, strings or the like.
type Change struct {
	Name string `json:"name"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new"`
}

// reader builds a Trace from a record. The process may have written anything, so events that make no sense are ignored.
type reader struct {
	*Trace
	program   frame
	open      []*frame // the open frames by depth; the first is that of the program
	why, text string   // how the program ended
}

// frame is a frame of the traced program.
type frame struct {
	steps *[]*node
	line  *node // the last line that ran; nil: none yet
}

func (f *frame) add(n *node) {
	if *f.steps = append(*f.steps, n); n.Kind == Line {
		f.line = n
	}
}

// mostDepth bounds the depth of calls; deeper ones count as being at this depth.
const mostDepth = 64

func readTrace(source string, r sandbox.Result) *Trace {
	t := &Trace{source: strings.Split(source, "\n"), Output: string(r.Stdout)}
	in := reader{Trace: t, program: frame{steps: &t.steps}}
	in.open = []*frame{&in.program}
	for line := range bytes.Lines(r.Record) {
		if line[0] == 0 {
			break
		}
		var event []json.RawMessage
		if json.Unmarshal(line, &event) == nil && len(event) > 1 {
			in.event(event)
		}
	}
	t.Ended = ended(in.why, in.text, t.Lines, r)
	if in.why == "" && r.Status == sandbox.RTE && r.Stderr != "" {
		said := strings.TrimSpace(r.Stderr)
		t.Ended += " It said: " + oneLine(said[strings.LastIndexByte(said, '\n')+1:], 250)
	}
	return t
}

// event adds an event: its kind, a depth, and the rest.
func (in *reader) event(event []json.RawMessage) {
	kind, depth := "", 0
	get(event, 0, &kind)
	switch kind {
	case "o":
		get(event, 1, &in.loops)
		return
	case "e":
		get(event, 1, &in.why)
		get(event, 2, &in.text)
		in.text = oneLine(in.text, 400)
		return
	}
	get(event, 1, &depth)
	s := Step{Depth: min(max(depth, 0), mostDepth)}
	switch kind {
	case "l":
		get(event, 2, &s.Line)
		s.Kind, s.Code = Line, in.code(s.Line)
		in.Lines++
		in.frame(s.Depth).add(&node{Step: s})
	case "c":
		if line := in.frame(s.Depth).line; line != nil {
			line.Changes = append(line.Changes, changes(event, 2)...)
		}
	case "f", "g":
		s.Kind = Resume
		get(event, 2, &s.Name)
		if kind == "f" {
			s.Kind, s.Changes = Call, changes(event, 4)
			get(event, 3, &s.Line)
		}
		in.begin(s)
	case "r", "y", "u":
		s.Kind = map[string]Kind{"r": Return, "y": Yield, "u": Leave}[kind]
		get(event, 2, &s.Value)
		s.Value = oneLine(s.Value, 250)
		in.end(s)
	case "x":
		s.Kind = Raise
		get(event, 2, &s.Line)
		get(event, 3, &s.Value)
		s.Value = oneLine(s.Value, 250)
		steps := in.frame(s.Depth).within()
		*steps = append(*steps, &node{Step: s})
	}
}

// frame is the open frame at a depth, or the deepest one if there is none.
func (in *reader) frame(depth int) *frame { return in.open[min(depth, len(in.open)-1)] }

// begin opens a frame, called by the last line of the frame above.
func (in *reader) begin(s Step) {
	n := &node{Step: s}
	above := &in.steps
	if s.Depth > 0 {
		in.open = in.open[:min(s.Depth, len(in.open))]
		above = in.frame(s.Depth - 1).within()
	} else {
		in.open = in.open[:0]
	}
	*above = append(*above, n)
	in.open = append(in.open, &frame{steps: &n.inner})
}

// end closes the frame at the depth of the step, which says how. The program itself returns nothing.
func (in *reader) end(s Step) {
	if f := in.frame(s.Depth); f != &in.program {
		f.add(&node{Step: s})
	}
	if in.open = in.open[:min(max(s.Depth, 0), len(in.open))]; len(in.open) == 0 {
		in.open = append(in.open, &in.program)
	}
}

// within is where a step belongs that happens during the last line.
func (f *frame) within() *[]*node {
	if f.line != nil {
		return &f.line.inner
	}
	return f.steps
}

func (t *Trace) code(line int) string {
	if line < 1 || line > len(t.source) {
		return ""
	}
	return oneLine(strings.TrimRight(t.source[line-1], " \t\r"), 100)
}

// get decodes a part of an event into v, and leaves v as it is if there is no such part.
func get(event []json.RawMessage, i int, v any) {
	if i < len(event) {
		_ = json.Unmarshal(event[i], v)
	}
}

func changes(event []json.RawMessage, at int) (all []Change) {
	var list [][3]string // null is ""
	get(event, at, &list)
	for _, c := range list {
		all = append(all, Change{Name: oneLine(c[0], 120), Old: oneLine(c[1], 120), New: oneLine(c[2], 120)})
	}
	return all
}
