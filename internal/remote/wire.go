// Package remote is the protocol of training on a server, and a client for it. It does not know how anything is trained.
package remote

import (
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"strconv"

	"github.com/seed-7879b91d/grpo/reward"
)

// BeginRequest creates a session.
type BeginRequest struct {
	Model    string                     `json:"model"`    // a model of the server; "" if it serves only one
	Settings map[string]json.RawMessage `json:"settings"` // by the keys of a configuration
	Problems []json.RawMessage          `json:"problems"` // rows of a task file; nil: those of the server's configuration
}

// The states of a session.
const (
	Ready    = "ready"
	Busy     = "working"
	Finished = "finished"
)

// State is the state of a session.
type State struct {
	ID       string         `json:"id"`
	Model    string         `json:"model"`
	State    string         `json:"state"`
	Steps    int            `json:"steps"` // done, and on disk
	Settings map[string]any `json:"settings"`
	Saved    []int          `json:"saved"` // steps whose adapters are saved
	ServedAs string         `json:"served_as,omitempty"`
}

// Integer is an integer that may be written as 1.0 in JSON: some languages have only one type of number.
type Integer int

// UnmarshalJSON reads 1, 1.0 and 1e0.
func (w *Integer) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 0)
	if err == nil {
		*w = Integer(n)
		return nil
	}
	v := float64(*w) // null leaves it unchanged
	if err := json.Unmarshal(text, &v); err == nil && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		*w = Integer(v)
		return nil
	}
	kind := map[byte]string{'"': "string", '[': "list", '{': "object", 't': "bool", 'f': "bool"}[text[0]]
	return &json.UnmarshalTypeError{Value: cmp.Or(kind, "number "+string(text)), Type: reflect.TypeFor[int]()}
}

// StepRequest asks for a step. Repeated, it is the same step, not another one.
type StepRequest struct {
	Step       *Integer          `json:"step"` // starting with 1
	Problems   []json.RawMessage `json:"problems"`
	IDs        []string          `json:"ids"` // of problems of the session; if both are nil, its next problems
	Iterations Integer           `json:"iterations"`
}

// SampleRequest asks for n completions of each problem from the current policy.
type SampleRequest struct {
	Problems    []json.RawMessage `json:"problems"`
	IDs         []string          `json:"ids"`
	N           *Integer          `json:"n"`           // nil: 1
	Temperature json.RawMessage   `json:"temperature"` // as it was sent; nil: 1
}

// Sampled are completions with their scores.
type Sampled struct {
	Step   int     `json:"step"` // of the policy
	Groups []Group `json:"groups"`
}

// Group is a problem with its completions.
type Group struct {
	Problem     string       `json:"problem"` // its id
	Prompt      []int32      `json:"prompt"`  // its tokens
	Completions []Completion `json:"completions"`
}

// Completion is a completion with its score.
type Completion struct {
	Text     string       `json:"text"`
	Tokens   []int32      `json:"tokens"`
	LogProbs []float32    `json:"logprobs"`
	Finish   string       `json:"finish"`
	Score    reward.Score `json:"score"`
}

// SaveRequest asks to save the adapter.
type SaveRequest struct {
	ServeAs string `json:"serve_as"` // "": not served
}

// Saved says what was saved.
type Saved struct {
	Step     int    `json:"step"`
	Adapter  string `json:"adapter"` // path of an archive, on the server
	ServedAs string `json:"served_as,omitempty"`
}
