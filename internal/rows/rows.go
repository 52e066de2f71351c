// Package rows reads the record of a run once and passes it to a sink that writes another format: settings at each start, then steps
// and evaluations in order, each with a time. The time follows from the record, not from when it is read, so that a file written
// during the run and one written afterwards are the same bytes.
//
// It knows the files of a run directory, and the keys that identify lines or may be meaningless; all other keys it passes on.
package rows

import (
	"encoding/json"
	"math"
	"time"
)

// Cell is a JSON value with the name of its column.
type Cell struct {
	Name string
	JSON json.RawMessage
}

// Number is the value as a number, if it is one; true is 1.
func (c Cell) Number() (float64, bool) {
	switch string(c.JSON) {
	case "true":
		return 1, true
	case "false":
		return 0, true
	case "null":
		return 0, false
	}
	var v float64
	err := json.Unmarshal(c.JSON, &v)
	return v, err == nil && !math.IsInf(v, 0)
}

// Text is the value as text: strings without quotes, null as nothing.
func (c Cell) Text() string {
	var text string
	if json.Unmarshal(c.JSON, &text) != nil {
		return string(c.JSON)
	}
	return text
}

// The prefixes of the names of cells.
const (
	Steps       = "steps/"       // of a step: steps/mean_reward
	Timing      = "timing/"      // of the same row, from the clock
	Evaluations = "evaluations/" // of an evaluation
)

// Row is a step or an evaluation.
type Row struct {
	Step  int
	Time  time.Time
	Cells []Cell
}

// Start is a process that started to train: its settings, and those that changed.
type Start struct {
	After    int // steps done before
	Time     time.Time
	Settings []Cell
	Changed  []Cell
}

// Run identifies a run.
type Run struct {
	Name  string // of its directory
	ID    string // 32 hexadecimal digits
	Begun time.Time
}

// Sink writes a record in another format.
type Sink interface {
	// Start precedes the first row, and the first row of each later process.
	Start(Start) error
	Row(Row) error
	// Done says that the run has all of its steps, for now.
	Done(at time.Time) error
}
