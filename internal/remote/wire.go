// Package remote is training on a server from elsewhere: what is said on the wire, and a client that says it. It does not know
// how anything is trained.
package remote

import (
	"encoding/json"

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

// StepAsk asks for one step. Asked again it is the same step, not another one.
type StepAsk struct {
	Step       *int              `json:"step"` // 1 for the first
	Problems   []json.RawMessage `json:"problems"`
	IDs        []string          `json:"ids"` // of problems of the session; both nil: its next
	Iterations int               `json:"iterations"`
}

// SampleAsk asks for n completions of each problem from the policy as it is.
type SampleAsk struct {
	Problems    []json.RawMessage `json:"problems"`
	IDs         []string          `json:"ids"`
	N           *int              `json:"n"`           // nil: 1
	Temperature *float32          `json:"temperature"` // nil: 1
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
