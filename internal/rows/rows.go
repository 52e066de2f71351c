// Package rows walks the record of a run once, and gives what it finds to whoever writes it down in another form: settings at
// each start, then steps and evaluations in their order, each with a time. The time is not that of reading: it follows from the
// record, so that a file written while a run goes on and one written from its directory afterwards are the same bytes.
//
// It knows the files of a run directory, the keys that tell their lines apart and those that may say nothing, and of the rest nothing.
package rows

import (
	"encoding/json"
	"math"
	"time"
)

// Cell is a value under the name of its column, as JSON.
type Cell struct {
	Name string
	JSON json.RawMessage
}

// Number is the value of a cell that has one; true is 1.
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

// Text is the value as a person reads it: a text without its quotes, nothing for null.
func (c Cell) Text() string {
	var text string
	if json.Unmarshal(c.JSON, &text) != nil {
		return string(c.JSON)
	}
	return text
}

// The first parts of the names of a row's cells.
const (
	Steps       = "steps/"       // of a step, as in steps/mean_reward
	Timing      = "timing/"      // of the same row, by a clock
	Evaluations = "evaluations/" // of an evaluation
)

// Row is a step or an evaluation.
type Row struct {
	Step  int
	Time  time.Time
	Cells []Cell
}

// Start is a process that began to train: with which settings, and which of them are not as they were before.
type Start struct {
	After    int // the steps that were done
	Time     time.Time
	Settings []Cell
	Changed  []Cell
}

// Run is what a run is called.
type Run struct {
	Name  string // of its directory
	ID    string // 32 hexadecimal digits
	Begun time.Time
}

// Sink writes a record down.
type Sink interface {
	// Start comes before the first row, and before the first row that a later process made.
	Start(Start) error
	Row(Row) error
	// Done says that the run has all of its steps for now.
	Done(at time.Time) error
}
