// Package remote is training on a server from elsewhere: what is said on the wire, and a client that says it. It does not know
// how anything is trained.
package remote

import (
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"strconv"

	"github.com/seed-7879b91d/grpo/reward"
)

// Begin asks for a session.
type Begin struct {
	Model    string                     `json:"model"`    // of those that are served; "" where there is one only
	Settings map[string]json.RawMessage `json:"settings"` // by the keys of a configuration
	Problems []json.RawMessage          `json:"problems"` // rows of a task file; nil: those of the server's configuration
}

// The states of a session.
const (
	Ready    = "ready"
	Working  = "working"
	Finished = "finished"
)

// State is what a session is.
type State struct {
	ID       string         `json:"id"`
	Model    string         `json:"model"`
	State    string         `json:"state"`
	Steps    int            `json:"steps"` // that are done, and on disk
	Settings map[string]any `json:"settings"`
	Saved    []int          `json:"saved"` // steps whose adapters are kept
	ServedAs string         `json:"served_as,omitempty"`
}

// Whole is a whole number, however JSON spells it: languages that know one kind of number write 1.0 of it, too, as settings may have it.
type Whole int

// UnmarshalJSON reads 1, 1.0 and 1e0.
func (w *Whole) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 0)
	if err == nil {
		*w = Whole(n)
		return nil
	}
	v := float64(*w) // null leaves it
	if err := json.Unmarshal(text, &v); err == nil && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		*w = Whole(v)
		return nil
	}
	kind := map[byte]string{'"': "string", '[': "list", '{': "object", 't': "bool", 'f': "bool"}[text[0]]
	return &json.UnmarshalTypeError{Value: cmp.Or(kind, "number "+string(text)), Type: reflect.TypeFor[int]()}
}

// StepAsk asks for one step. Asked again it is the same step, not another one.
type StepAsk struct {
	Step       *Whole            `json:"step"` // 1 for the first
	Problems   []json.RawMessage `json:"problems"`
	IDs        []string          `json:"ids"` // of problems of the session; both nil: its next
	Iterations Whole             `json:"iterations"`
}

// SampleAsk asks for n completions of each problem from the policy as it is.
type SampleAsk struct {
	Problems    []json.RawMessage `json:"problems"`
	IDs         []string          `json:"ids"`
	N           *Whole            `json:"n"`           // nil: 1
	Temperature json.RawMessage   `json:"temperature"` // as it was sent; nil: 1
}

// Sampled are completions with their scores.
type Sampled struct {
	Step   int     `json:"step"` // that the policy is of
	Groups []Group `json:"groups"`
}

// Group is a problem with its completions.
type Group struct {
	Problem     string       `json:"problem"` // its id
	Prompt      []int32      `json:"prompt"`  // its tokens
	Completions []Completion `json:"completions"`
}

// Completion is one that was drawn and scored.
type Completion struct {
	Text     string       `json:"text"`
	Tokens   []int32      `json:"tokens"`
	LogProbs []float32    `json:"logprobs"`
	Finish   string       `json:"finish"`
	Score    reward.Score `json:"score"`
}

// SaveAsk asks for the adapter to be kept.
type SaveAsk struct {
	ServeAs string `json:"serve_as"` // the name to serve it under; "": it is not
}

// Saved is where it is.
type Saved struct {
	Step     int    `json:"step"`
	Adapter  string `json:"adapter"` // path of an archive, on the server
	ServedAs string `json:"served_as,omitempty"`
}
