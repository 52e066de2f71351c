package grpo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// The files of a run directory that grow line by line.
const (
	metricsFile  = "metrics.jsonl"   // Metrics and Evaluations: the same in every run of the same
	trainLogFile = "train_log.jsonl" // Timing
	runLogFile   = "run_log.jsonl"   // Advice
	rolloutsFile = "rollouts.jsonl"  // every completion

	checkpointLog = "checkpoints.jsonl"
)

var logFiles = []string{metricsFile, trainLogFile, runLogFile, rolloutsFile, checkpointLog}

// Record writes a run down. Every line carries its step, so that a resumed run can cut off what the
// interrupted one wrote after its last checkpoint.
type Record struct {
	Dir   string
	files map[string]*os.File
}

// OpenRecord continues the record in dir after the given step: later lines are dropped, and so is a
// line that was half written.
func OpenRecord(dir string, step int) (*Record, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r := &Record{Dir: dir, files: map[string]*os.File{}}
	for _, name := range logFiles {
		path := filepath.Join(dir, name)
		if err := cutAfter(path, step); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		r.files[name] = f
	}
	return r, nil
}

// cutAfter drops the lines of later steps from a file.
func cutAfter(path string, step int) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var keep bytes.Buffer
	in := bufio.NewReader(bytes.NewReader(text))
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			break // what has no end was half written
		}
		var at struct{ Step int }
		if json.Unmarshal(line, &at) == nil && at.Step <= step {
			keep.Write(line)
		}
	}
	if keep.Len() == len(text) {
		return nil
	}
	return atomicfile.WriteBytes(path, keep.Bytes())
}

func (r *Record) line(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := r.files[name].Write(append(text, '\n')); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *Record) step(m Metrics, t Timing) error {
	if err := r.line(metricsFile, m); err != nil {
		return err
	}
	return r.line(trainLogFile, t)
}

func (r *Record) advice(step int, advice []Advice) error {
	for _, a := range advice {
		if err := r.line(runLogFile, struct {
			Step int `json:"step"`
			Advice
		}{step, a}); err != nil {
			return err
		}
	}
	return nil
}

// evaluationKind tells the lines of evaluations from those of steps.
const evaluationKind = "evaluation"

func (r *Record) evaluation(e Evaluation) error {
	return r.line(metricsFile, struct {
		Kind string `json:"kind"`
		Evaluation
	}{evaluationKind, e})
}

// evaluations are those of the run so far.
func (r *Record) evaluations() ([]Evaluation, error) {
	text, err := os.ReadFile(filepath.Join(r.Dir, metricsFile))
	if err != nil {
		return nil, err
	}
	var all []Evaluation
	for line := range strings.Lines(string(text)) {
		var l struct {
			Kind string
			Evaluation
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Kind == evaluationKind {
			all = append(all, l.Evaluation)
		}
	}
	return all, nil
}

// firstEvaluation is that of the run's start, nil where there is none yet.
func (r *Record) firstEvaluation() (*Evaluation, error) {
	all, err := r.evaluations()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// rolloutLine is one completion with what came of it.
type rolloutLine struct {
	Step      int                  `json:"step"`
	Group     int                  `json:"group"`
	Sample    int                  `json:"sample"`
	Problem   string               `json:"problem"`
	Prompt    []int32              `json:"prompt"`
	Tokens    []int32              `json:"tokens"`
	LogProbs  []float32            `json:"logprobs"`
	Text      string               `json:"text"`
	Finish    sampler.FinishReason `json:"finish_reason"`
	Score     reward.Score         `json:"score"`
	Advantage float64              `json:"advantage"`
}

// recordGroups writes the completions of the step that was just done.
func (t *Trainer) recordGroups(groups []*Group) error {
	if t.record == nil {
		return nil
	}
	for i, g := range groups {
		for k, r := range g.Rollouts {
			if err := t.record.line(rolloutsFile, rolloutLine{t.step, i, k, g.Problem.ID, g.Prompt, r.Tokens, r.LogProbs,
				g.Texts[k], r.Finish, g.Scores[k], g.Advantages[k]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sync makes what was written survive a power cut.
func (r *Record) sync() error {
	for name, f := range r.files {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Close ends the record.
func (r *Record) Close() error {
	for _, f := range r.files {
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
