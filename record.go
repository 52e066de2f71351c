package grpo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/atomicfile"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/report"
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

// Record writes a run down. Its files only grow: a checkpoint knows how long they were, so that a
// resumed run can cut off what the interrupted one wrote after it.
type Record struct {
	Dir   string
	files map[string]*os.File
}

// OpenRecord continues the record in dir where its files had these lengths; nil begins a new one.
func OpenRecord(dir string, lengths map[string]int64) (*Record, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r := &Record{Dir: dir, files: map[string]*os.File{}}
	for _, name := range logFiles {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			r.files[name] = f
			err = cut(f, lengths[name])
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// cut shortens a file to a length that it had.
func cut(f *os.File, length int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < length {
		return badinput.Errorf("%s has %d bytes and had %d when the checkpoint was made: somebody shortened it; type run_dir=DIR init_from=%s to go on in another directory", f.Name(), info.Size(), length, filepath.Dir(f.Name()))
	}
	return f.Truncate(length)
}

// lengths are those of the files now.
func (r *Record) lengths() (map[string]int64, error) {
	n := map[string]int64{}
	for name, f := range r.files {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		n[name] = info.Size()
	}
	return n, nil
}

func (r *Record) append(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = r.files[name].Write(append(text, '\n'))
	return err
}

// line is append for what is no part of a checkpoint.
func (r *Record) line(name string, v any) error {
	if err := r.append(name, v); err != nil {
		return r.unwritten(err)
	}
	return nil
}

// unwritten says of a run that could not be written down that it can be gone on with.
func (r *Record) unwritten(err error) error {
	return fmt.Errorf("%w; what was saved before stands: mend that, then type run_dir=%s to go on", err, r.Dir)
}

func (r *Record) step(m Metrics, t Timing, advice []Advice) error {
	if err := r.line(metricsFile, m); err != nil {
		return err
	}
	if err := r.line(trainLogFile, t); err != nil {
		return err
	}
	return r.advice(m.Step, advice)
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

func (r *Record) evaluation(e Evaluation, advice []Advice) error {
	if err := r.line(metricsFile, struct {
		Kind string `json:"kind"`
		Evaluation
	}{evaluationKind, e}); err != nil {
		return err
	}
	return r.advice(e.Step, advice)
}

// evaluations are those of the run so far.
func (r *Record) evaluations() ([]Evaluation, error) {
	var all []Evaluation
	err := jsonl.Whole(filepath.Join(r.Dir, metricsFile), func(line []byte) error {
		var l struct {
			Kind string `json:"kind"`
			Evaluation
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if l.Kind == evaluationKind {
			all = append(all, l.Evaluation)
		}
		return nil
	})
	return all, err
}

// firstEvaluation is that of the run's start, nil where there is none yet.
func (r *Record) firstEvaluation() (*Evaluation, error) {
	all, err := r.evaluations()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// report draws the run as a page. A run is not ended because it cannot be drawn.
func (t *Trainer) report() {
	if t.record == nil {
		return
	}
	if err := report.Write(t.record.Dir); err != nil {
		t.Watcher.Warn(fmt.Sprintf("%s: %v", report.File, err))
	}
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
	return atomicfile.SyncDir(r.Dir)
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
