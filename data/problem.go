// Package data defines problems and their tests, the pool that deals a fresh subset of them every step,
// filters and block lists. It knows neither where problems come from (package dataset reads them) nor
// how an answer is judged (package reward does).
package data

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-7879b91d/grpo/data/match"
)

// Problem is one task. Its tests may be gigabytes away on disk: Tests fetches them, and
// a Problem is cheap to copy and to keep. As JSON it carries everything but the tests; Record is the
// problem together with them.
type Problem struct {
	// ID names the problem in logs, caches and checkpoints. It is unique within a set and does not
	// depend on the order of the rows.
	ID string `json:"id"`
	// Source is the collection the problem came from, such as "taco" or the name of a file.
	Source string `json:"source"`
	// Statement is the text of the task as its author wrote it.
	Statement string `json:"prompt"`
	// StarterCode is the code the answer must complete; usually a class with one empty method.
	StarterCode string `json:"starter_code,omitempty"`
	// Kind says how the answer is run. All tests of a problem are of this kind.
	Kind Kind `json:"kind"`
	// FuncName is what a Call problem calls: a module-level function, or a method of class Solution
	// where the answer defines one. Empty for Stdin. The assertions of an Assert problem call it, too.
	FuncName string `json:"fn_name,omitempty"`
	// Match is how the answer to an Answer problem is compared. It is the same in all of its tests.
	Match match.By `json:"match,omitempty"`
	// Limits bound every test that sets none of its own.
	Limits
	// Tolerance, where above zero, lets numbers in the output differ by that much, absolute or
	// relative, whichever allows more. Zero means the exact comparison.
	Tolerance float64 `json:"tolerance,omitempty"`
	// Checker, where set, is Python source that defines check(input, output, expected) -> bool, for
	// problems with several right answers. It decides in place of the comparison.
	Checker string `json:"checker,omitempty"`
	// Metadata is a JSON object carried along unread; nil when the row had none.
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// NumTests is the number of tests, known without fetching them.
	NumTests int `json:"-"`

	loader TestLoader
}

// TestLoader fetches the tests of one problem from where they are stored.
type TestLoader interface {
	LoadTests(ctx context.Context) ([]Test, error)
}

// Tests returns the tests of the problem, in the order they were given. The caller owns the slice.
// An error means that the stored tests could not be read back; it says nothing about an answer.
func (p *Problem) Tests(ctx context.Context) ([]Test, error) {
	if p.loader == nil {
		return nil, fmt.Errorf("problem %s: no tests are attached", p.ID)
	}
	tests, err := p.loader.LoadTests(ctx)
	if err != nil {
		return nil, fmt.Errorf("problem %s: %w", p.ID, err)
	}
	return tests, nil
}

// ColumnLoader is a TestLoader that also has the other columns of a problem's row.
type ColumnLoader interface {
	LoadColumns(ctx context.Context) (map[string]json.RawMessage, error)
}

// Columns are the other columns of the problem's row in its data set, if the set was opened to keep them; else
// there are none.
func (p *Problem) Columns(ctx context.Context) (map[string]json.RawMessage, error) {
	l, ok := p.loader.(ColumnLoader)
	if !ok {
		return nil, nil
	}
	columns, err := l.LoadColumns(ctx)
	if err != nil {
		return nil, fmt.Errorf("problem %s: %w", p.ID, err)
	}
	return columns, nil
}

// WithTests returns the problem with its tests held in memory.
func (p Problem) WithTests(tests ...Test) Problem {
	return p.WithLoader(len(tests), inMemory(tests))
}

// WithLoader returns the problem with n tests that l fetches when they are asked for.
func (p Problem) WithLoader(n int, l TestLoader) Problem {
	p.NumTests, p.loader = n, l
	return p
}

type inMemory []Test

func (t inMemory) LoadTests(context.Context) ([]Test, error) {
	return append([]Test(nil), t...), nil
}

// Record is a problem together with its tests: one line of the normal form, and of a user's own
// tasks.
type Record struct {
	Problem
	Tests []Test `json:"tests"`
}

// Test is one check of an answer. A test of a Stdin problem has Stdin and Stdout, a test of a Call
// problem has Args and Returns, a test of an Answer problem has Match, a test of an Assert problem has Assert.
type Test struct {
	// Stdin is everything the program can read, and Stdout what it must print.
	Stdin, Stdout string
	// Args are the positional arguments of the call, one JSON value each, and Returns is the value
	// the call must give back. They are kept as text, so that integers of any size stay exact. Args
	// is not nil for a Call test, though it may be empty.
	Args    []json.RawMessage
	Returns json.RawMessage
	// UnwrapOK says that Returns is a one-element list whose bare element is as right as the list:
	// some collections wrap every expected value, and do not say so.
	UnwrapOK bool
	// Match is what the text of an answer must match.
	Match Match
	// Assert is Python that raises nothing if the answer is right: assertions that call FuncName of the answer, or the functions
	// in Calls. Setup runs before them; the answer sees neither. Given is code of the task that runs before the answer.
	Assert, Setup, Given string
	Calls                []string
	// Public says that the model may see this test, with input and expected output. All others are hidden.
	Public bool
	// Limits, where set, take the place of the problem's.
	Limits
}

// Kind is the kind of the problem this test belongs to.
func (t *Test) Kind() Kind {
	switch {
	case t.Match.By != "":
		return Answer
	case t.Assert != "":
		return Assert
	case t.Args != nil:
		return Call
	}
	return Stdin
}

// Limits bound one run of an answer. Zero leaves the run's default in place.
type Limits struct {
	// TimeMS is processor time in milliseconds.
	TimeMS int64 `json:"time_limit_ms,omitempty"`
	// MemoryMB is memory in units of 2^20 bytes.
	MemoryMB int64 `json:"memory_limit_mb,omitempty"`
}

// Time is the processor time limit, or 0.
func (l Limits) Time() time.Duration { return time.Duration(l.TimeMS) * time.Millisecond }

// Memory is the memory limit in bytes, or 0.
func (l Limits) Memory() int64 { return l.MemoryMB << 20 }

// Or fills what l leaves open from the wider limits.
func (l Limits) Or(wider Limits) Limits {
	if l.TimeMS == 0 {
		l.TimeMS = wider.TimeMS
	}
	if l.MemoryMB == 0 {
		l.MemoryMB = wider.MemoryMB
	}
	return l
}

// Kind says how an answer is run against a test. The zero Kind is no kind.
type Kind uint8

const (
	// Stdin runs the answer as a program: it reads standard input and prints its result.
	Stdin Kind = iota + 1
	// Call calls one function of the answer with arguments and looks at what it returns.
	Call
	// Answer runs nothing: the text of the answer is compared.
	Answer
	// Assert runs assertions that call functions of the answer.
	Assert
)

func (k Kind) String() string {
	switch k {
	case Stdin:
		return "stdin"
	case Call:
		return "call"
	case Answer:
		return "answer"
	case Assert:
		return "assert"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText writes "stdin", "call", "answer" or "assert".
func (k Kind) MarshalText() ([]byte, error) {
	if k < Stdin || k > Assert {
		return nil, fmt.Errorf("%s is not a kind of problem", k)
	}
	return []byte(k.String()), nil
}

// UnmarshalText reads "stdin", "call", "answer" or "assert".
func (k *Kind) UnmarshalText(text []byte) error {
	switch string(text) {
	case "stdin":
		*k = Stdin
	case "call":
		*k = Call
	case "answer":
		*k = Answer
	case "assert":
		*k = Assert
	default:
		return fmt.Errorf("kind %q: expected \"stdin\", \"call\", \"answer\" or \"assert\"", text)
	}
	return nil
}
