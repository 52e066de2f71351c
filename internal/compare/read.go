// Package compare compares runs by what their directories record: settings that differ, curves, and held-out scores
// problem by problem. It trains nothing, and uses nothing but that record.
package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Run is the record of a run.
type Run struct {
	Name, Dir   string
	Settings    *configs.Config // the last
	Manifest    provenance.Manifest
	Parts       provenance.Parts // the last
	Own         []string         // parts that the caller's Go program brought, which have no fingerprints
	Steps       []Step
	Evaluations []Evaluation
	HeldOut     []HeldOut // evaluations of a warm-up
	Resumes     int       // after interruptions

	past *provenance.Run
}

// Step is a line of metrics.jsonl with its time from train_log.jsonl. Missing values are NaN.
type Step struct {
	Step     int     `json:"step"`
	Reward   float64 `json:"mean_reward"`
	Correct  float64 `json:"mean_correct"`
	KL       float64 `json:"kl_pre_post_v1"`
	KLRef    float64 `json:"kl_ref"`
	Entropy  float64 `json:"entropy"`
	Length   float64 `json:"completion_length_mean"`
	Tokens   float64 `json:"completion_tokens"`
	GradNorm float64 `json:"grad_norm"`
	Loss     float64 `json:"loss"`
	Updated  *bool   `json:"updated"`
	Seconds  float64 `json:"-"`

	Completions int `json:"completions"`
	Excluded    int `json:"excluded"`
}

// Evaluation is an evaluation on held-out problems.
type Evaluation struct {
	Step     int        `json:"step"`
	Problems int        `json:"problems"`
	Greedy   float64    `json:"pass@1_greedy"`
	CI       [2]float64 `json:"pass@1_greedy_ci"`
	K        int        `json:"k"`
	PassAt1  float64    `json:"pass@1"`
	PassAtK  float64    `json:"pass@k"`
	BestOfK  float64    `json:"best_of_k"`

	Judged stats.Judged `json:"-"` // the results of problems; empty if they were not recorded
}

var nan = math.NaN()

// Open reads the directories of runs, in the given order. Their names are the parts in which the paths differ.
func Open(dirs []string) (runs []*Run, err error) {
	seen := map[string]bool{}
	var mistakes []error
	for _, dir := range dirs {
		whole, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if seen[whole] {
			mistakes = append(mistakes, badinput.Errorf("%s: it is there twice; leave one out", dir))
			continue
		}
		seen[whole] = true
		r, err := Read(dir)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		runs = append(runs, r)
	}
	name(runs)
	return runs, errors.Join(mistakes...)
}

// Read reads the directory of a run.
func Read(dir string) (*Run, error) {
	if err := Check(dir); err != nil {
		return nil, err
	}
	past, err := provenance.Read(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: filepath.Clean(dir), Manifest: past.Manifest, Resumes: past.Resumes(), past: past}
	cfg, start, err := past.Last()
	if err != nil {
		return nil, badinput.Errorf("%w; expected the directory of a run, as its run_dir names it", err)
	}
	r.Settings, r.Parts = cfg, start.Parts
	known := false
	if r.Own, known = past.Own(start); !known {
		r.Own = past.Manifest.Own
	}
	for _, read := range []func() error{r.readMetrics, r.readJudged, r.readTimes} {
		if err := read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, badinput.Errorf("%w, or leave %s out", err, dir)
		}
	}
	return r, nil
}

// Check fails for what is no run directory, and suggests the one that may be meant.
func Check(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return badinput.Errorf("%s: there is none; expected the directory of a run, as its run_dir names it", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return badinput.Errorf("%s: a file; expected the directory of a run", dir)
	}
	if err := rundir.RefuseCheckpoint(dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "sweep.json")); err == nil {
		return badinput.Errorf("%s is a sweep; type its runs, %s", dir, filepath.Join(dir, "runs", "*"))
	}
	return nil
}

func (r *Run) readMetrics() error {
	return jsonl.EachComplete(filepath.Join(r.Dir, "metrics.jsonl"), func(line []byte) error {
		var is struct{ Kind string }
		if err := json.Unmarshal(line, &is); err != nil {
			return err
		}
		switch is.Kind {
		case "":
			s := Step{Reward: nan, Correct: nan, KL: nan, KLRef: nan, Entropy: nan, Length: nan, Tokens: nan, GradNorm: nan, Loss: nan,
				Seconds: nan}
			if err := json.Unmarshal(line, &s); err != nil {
				return err
			}
			if s.Updated != nil && !*s.Updated { // the line has no meaningful loss then
				s.KL, s.KLRef, s.Entropy, s.GradNorm, s.Loss = nan, nan, nan, nan, nan
			}
			if s.Completions > 0 && s.Excluded == s.Completions { // nothing was scored
				s.Reward, s.Correct = nan, nan
			}
			r.Steps = append(r.Steps, s)
		case "held_out":
			h := HeldOut{Loss: nan, Accuracy: nan, Margin: nan}
			if err := json.Unmarshal(line, &h); err != nil {
				return err
			}
			r.HeldOut = append(r.HeldOut, h)
		case "evaluation":
			e := Evaluation{Greedy: nan, CI: [2]float64{nan, nan}, PassAt1: nan, PassAtK: nan, BestOfK: nan}
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			if stats.Unjudged(e.Greedy, e.CI) { // no problem was judged
				e.Greedy, e.CI = nan, [2]float64{nan, nan}
				if e.PassAt1 == 0 && e.PassAtK != e.PassAtK {
					e.PassAt1 = nan
				}
			}
			r.Evaluations = append(r.Evaluations, e)
		}
		return nil
	})
}

func (r *Run) readJudged() error {
	judged, err := provenance.JudgedOf(r.Dir)
	for i := range r.Evaluations {
		r.Evaluations[i].Judged = judged[r.Evaluations[i].Step]
	}
	return err
}

func (r *Run) readTimes() error {
	all, err := jsonl.OfKind[struct {
		Step  int     `json:"step"`
		Total float64 `json:"total_s"`
	}](filepath.Join(r.Dir, "train_log.jsonl"), "")
	at := map[int]float64{}
	for _, t := range all {
		at[t.Step] = t.Total
	}
	for i := range r.Steps {
		if s, ok := at[r.Steps[i].Step]; ok {
			r.Steps[i].Seconds = s
		}
	}
	return err
}

// name gives each run the shortest suffix of its path that is unique.
func name(runs []*Run) {
	parts := make([][]string, len(runs))
	for i, r := range runs {
		whole, err := filepath.Abs(r.Dir)
		if err != nil {
			whole = r.Dir
		}
		parts[i] = strings.Split(filepath.ToSlash(whole), "/")
	}
	end := func(i, n int) string { return strings.Join(parts[i][max(0, len(parts[i])-n):], "/") }
	for i, r := range runs {
		for n := 1; ; n++ {
			r.Name = end(i, n)
			unique := true
			for k := range runs {
				unique = unique && (k == i || end(k, n) != r.Name)
			}
			if unique || n > len(parts[i]) {
				break
			}
		}
	}
}

// Done is the number of steps taken.
func (r *Run) Done() int {
	if n := len(r.Steps); n > 0 {
		return r.Steps[n-1].Step
	}
	return 0
}

// Finished reports whether the run has taken all its steps.
func (r *Run) Finished() bool { return r.last() >= 0 && r.Done() >= r.last() }

// last is the planned last step; -1: none.
func (r *Run) last() int { return r.Settings.StepsOf(r.Manifest.Problems) }

// At is the evaluation after a step, the last one if step is below 0; nil if there is none.
func (r *Run) At(step int) *Evaluation {
	for i := len(r.Evaluations) - 1; i >= 0; i-- {
		if step < 0 || r.Evaluations[i].Step == step {
			return &r.Evaluations[i]
		}
	}
	return nil
}

// heldOut is the hash of an evaluation's problems: those of the process that made its step if it was to evaluate then, otherwise the
// last ones of the run.
func (r *Run) heldOut(e *Evaluation) string {
	if e == nil {
		return ""
	}
	last := r.Parts["test_data"].SHA256
	cfg, start, err := r.past.At(e.Step)
	if err != nil || cfg.EvalEvery < 1 || start.After != e.Step && e.Step%cfg.EvalEvery != 0 && e.Step != cfg.MaxSteps {
		return last
	}
	return cmp.Or(start.Parts["test_data"].SHA256, last)
}

// Total adds up the known values of a quantity over the steps; NaN if there are none.
func (r *Run) Total(of func(s *Step) float64) float64 {
	total, known := 0.0, false
	for i := range r.Steps {
		if v := of(&r.Steps[i]); v == v {
			total, known = total+v, true
		}
	}
	if !known {
		return nan
	}
	return total
}

// LateMean is the mean of a quantity over the last tenth of the steps; NaN if unknown.
func (r *Run) LateMean(of func(s *Step) float64) float64 {
	n := max(len(r.Steps)/10, 1)
	sum, known := 0.0, 0
	for i := max(0, len(r.Steps)-n); i < len(r.Steps); i++ {
		if v := of(&r.Steps[i]); v == v {
			sum, known = sum+v, known+1
		}
	}
	return sum / float64(known) // 0/0 is NaN
}
