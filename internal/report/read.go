package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// run is the content of a run directory. What is missing is empty, or NaN where zero would look like a measurement.
type run struct {
	name             string
	config, manifest document
	settings         settings
	origin           origin
	steps            []step
	evals            []evaluation
	held             []heldRows           // held-out rows of a warm-up
	judged           map[int]stats.Judged // by the evaluation's step: the results of problems
	advice           []advice
	deeds            []deed // decisions of the autopilot
	checkpoints      []checkpoint
	samples          []sample                    // of the last recorded step
	statement        func(problem string) string // nil: unknown
	unread           []string                    // files with lines that are not JSON
}

// document is a JSON file, shown as it is.
type document []byte

// settings are the keys of config.json that the page uses.
type settings struct {
	Method   string `json:"method"`
	Model    string `json:"model"`
	Data     string `json:"data"`
	MaxSteps int    `json:"max_steps"`
	Epochs   int    `json:"epochs"`
	Rows     int    `json:"rows_per_step"`
	Prompts  int    `json:"prompts_per_step"`
	Samples  int    `json:"completions_per_prompt"`
	Recorded string `json:"record_rollouts"`
	JudgeURL string `json:"judge_url"`
}

// origin are the keys of manifest.json that the page uses.
type origin struct {
	Created  string `json:"created"`
	Backend  string `json:"backend"`
	Problems int    `json:"problems"`
	HeldOut  int    `json:"held_out"`
	Starts   []struct {
		After    int             `json:"after"`
		Settings json.RawMessage `json:"settings"` // those that differ from config.json
	} `json:"starts"`
}

// step is a line of metrics.jsonl, with its line of train_log.jsonl.
type step struct {
	Step         int     `json:"step"`
	Reward       float64 `json:"mean_reward"`
	Correct      float64 `json:"mean_correct"`
	Fraction     float64 `json:"mean_fraction"`
	Format       float64 `json:"format_rate"`
	Groups       float64 `json:"groups_total"`
	Skipped      float64 `json:"groups_skipped"`
	AllGood      float64 `json:"frac_all_good"`
	AllBad       float64 `json:"frac_all_bad"`
	Wasted       float64 `json:"wasted_tokens"`
	Completions  float64 `json:"completions"`
	Tokens       float64 `json:"completion_tokens"`
	MeanLength   float64 `json:"completion_length_mean"`
	MaxLength    float64 `json:"completion_length_max"`
	MinLength    float64 `json:"completion_length_min"`
	Truncated    float64 `json:"truncated_rate"`
	RewardErrors float64 `json:"reward_errors"`
	Excluded     float64 `json:"excluded"`
	Blocked      float64 `json:"blocked"`
	FileErrors   float64 `json:"reward_file_errors"`

	Verdicts map[string]float64 `json:"verdicts"`

	Components map[string]float64 `json:"components"`

	// These are meaningless without an update.
	Updated   *bool   `json:"updated"`
	Loss      float64 `json:"loss"`
	RatioMean float64 `json:"ratio_mean"`
	RatioMin  float64 `json:"ratio_min"`
	RatioMax  float64 `json:"ratio_max"`
	KL1       float64 `json:"kl_v1"`
	KL2       float64 `json:"kl_v2"`
	Shift1    float64 `json:"kl_pre_post_v1"`
	Shift2    float64 `json:"kl_pre_post_v2"`
	KLRef     float64 `json:"kl_ref"`
	MaxDiff   float64 `json:"max_logp_diff"`
	Entropy   float64 `json:"entropy"`
	Clipped   float64 `json:"clip_fraction"`
	ESS       float64 `json:"ess"`
	GradNorm  float64 `json:"grad_norm"`
	OnPolicy  float64 `json:"max_logp_diff_on_policy"`
	Staleness float64 `json:"staleness"`
	Rate      float64 `json:"lr"`

	pairs

	timing timing
}

type timing struct {
	Step      int     `json:"step"`
	Total     float64 `json:"total_s"`
	Sample    float64 `json:"sample_s"`
	Score     float64 `json:"score_s"`
	Train     float64 `json:"train_s"`
	TokensSec float64 `json:"sampled_tokens_per_s"`
	TrainSec  float64 `json:"trained_tokens_per_s"`
}

// evaluation is a line of metrics.jsonl of that kind.
type evaluation struct {
	Step     int        `json:"step"`
	Problems int        `json:"problems"`
	Greedy   float64    `json:"pass@1_greedy"`
	CI       [2]float64 `json:"pass@1_greedy_ci"`
	Format   float64    `json:"format_rate"`
	K        int        `json:"k"`
	PassAt1  float64    `json:"pass@1"`
	PassAtK  float64    `json:"pass@k"`
	LeftOut  int        `json:"k_left_out"`
}

type advice struct {
	Step    int    `json:"step"`
	Rule    string `json:"rule"`
	Finding string `json:"finding"`
	Try     string `json:"try"`
	Fatal   bool   `json:"fatal"`
}

var nan = math.NaN()

// unknownStep has NaN everywhere: keys that a line lacks, or that are null, stay unknown.
func unknownStep() step {
	return step{
		Reward: nan, Correct: nan, Fraction: nan, Format: nan,
		Groups: nan, Skipped: nan, AllGood: nan, AllBad: nan, Wasted: nan,
		Completions: nan, Tokens: nan, MeanLength: nan, MaxLength: nan, MinLength: nan, Truncated: nan,
		RewardErrors: nan, Excluded: nan, Blocked: nan,
		Loss: nan, RatioMean: nan, RatioMin: nan, RatioMax: nan, KL1: nan, KL2: nan, Shift1: nan, Shift2: nan,
		KLRef: nan, MaxDiff: nan, Entropy: nan, Clipped: nan, ESS: nan, GradNorm: nan, OnPolicy: nan,
		Staleness: nan, Rate: nan, pairs: unknownPairs, timing: unknownTiming(),
	}
}

func unknownTiming() timing {
	return timing{Total: nan, Sample: nan, Score: nan, Train: nan, TokensSec: nan, TrainSec: nan}
}

func unknownEvaluation(step int) evaluation {
	return evaluation{Step: step, Greedy: nan, CI: [2]float64{nan, nan}, Format: nan, PassAt1: nan, PassAtK: nan}
}

// read reads a run directory.
func read(dir string) (*run, error) {
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, badinput.Errorf("%s: expected a run directory, as a run's run_dir names it, and found none", dir)
	} else if err != nil {
		return nil, err
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r := &run{name: filepath.Base(whole)}
	for _, load := range []func(dir string) error{r.readDocuments, r.readMetrics, r.readJudged, r.readTimings, r.readLogs, r.readDeeds,
		r.readCheckpoints, r.readSamples} {
		if err := load(dir); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *run) readDocuments(dir string) error {
	for _, d := range []struct {
		name string
		text *document
		into any
	}{{"config.json", &r.config, &r.settings}, {"manifest.json", &r.manifest, &r.origin}} {
		text, err := os.ReadFile(filepath.Join(dir, d.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !understand(text, d.into) {
			r.unread = append(r.unread, d.name)
		}
		*d.text = text
	}
	if n := len(r.origin.Starts); n > 0 && len(r.origin.Starts[n-1].Settings) > 0 {
		if !understand(r.origin.Starts[n-1].Settings, &r.settings) {
			r.unread = append(r.unread, "manifest.json")
		}
	}
	return nil
}

func (r *run) readMetrics(dir string) error {
	return r.eachLine(dir, "metrics.jsonl", func(line []byte) bool {
		l := struct {
			Kind string `json:"kind"` // of lines that are not steps
			step
		}{step: unknownStep()}
		if !understand(line, &l) {
			return false
		}
		switch l.Kind {
		case "":
			if l.Step < 1 {
				return false
			}
			r.steps = appendStep(r.steps, l.settle(), func(s step) int { return s.Step })
		case "held_out":
			h := unknownRows(-1)
			if understand(line, &h); h.Step < 0 {
				return false
			}
			r.held = appendStep(r.held, h, func(h heldRows) int { return h.Step })
		case "evaluation":
			e := unknownEvaluation(-1)
			if understand(line, &e); e.Step < 0 {
				return false
			}
			r.evals = appendStep(r.evals, e.settle(), func(e evaluation) int { return e.Step })
		}
		return true
	})
}

// settle makes values unknown that are meaningless without an update, or without scores.
func (s step) settle() step {
	if s.Updated != nil && !*s.Updated {
		for _, x := range []*float64{&s.Loss, &s.RatioMean, &s.RatioMin, &s.RatioMax, &s.KL1, &s.KL2, &s.Shift1, &s.Shift2, &s.KLRef,
			&s.MaxDiff, &s.Entropy, &s.Clipped, &s.ESS, &s.GradNorm, &s.OnPolicy} {
			*x = nan
		}
	}
	if s.Completions > 0 && (s.RewardErrors == s.Completions || s.Excluded == s.Completions) {
		s.Reward, s.Correct, s.Fraction, s.Format = nan, nan, nan, nan
	}
	return s
}

// settle makes the speed of a phase unknown if it did not run, or had no tokens.
func (t timing) settle() timing {
	if t.Sample == 0 || t.TokensSec == 0 {
		t.TokensSec = nan
	}
	if t.Train == 0 || t.TrainSec == 0 {
		t.TrainSec = nan
	}
	return t
}

// appendStep appends v, removing entries of the same or later steps: the run was interrupted, and repeated these steps.
func appendStep[T any](all []T, v T, at func(T) int) []T {
	for len(all) > 0 && at(all[len(all)-1]) >= at(v) {
		all = all[:len(all)-1]
	}
	return append(all, v)
}

func (r *run) readJudged(dir string) error {
	r.judged = map[int]stats.Judged{}
	return r.eachLine(dir, "evaluations.jsonl", func(line []byte) bool {
		var j stats.Judged
		ok := understand(line, &j)
		r.judged[j.Step] = j
		return ok
	})
}

func (r *run) readTimings(dir string) error {
	index := make(map[int]int, len(r.steps))
	for i, s := range r.steps {
		index[s.Step] = i
	}
	return r.eachLine(dir, "train_log.jsonl", func(line []byte) bool {
		t := unknownTiming()
		ok := understand(line, &t)
		if i, known := index[t.Step]; ok && known {
			r.steps[i].timing = t.settle()
		}
		return ok
	})
}

func (r *run) readLogs(dir string) error {
	return r.eachLine(dir, "run_log.jsonl", func(line []byte) bool {
		var a advice
		ok := understand(line, &a)
		if ok && a.Rule != "" {
			r.advice = append(r.advice, a)
		}
		return ok
	})
}

// eachLine calls fn with the complete lines of a file, if it exists. If fn rejects a line, the file is listed in unread.
func (r *run) eachLine(dir, name string, fn func(line []byte) bool) error {
	refused := 0
	err := jsonl.EachComplete(filepath.Join(dir, name), func(line []byte) error {
		if len(line) > 0 && !fn(line) {
			refused++
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if refused > 0 {
		r.unread = append(r.unread, fmt.Sprintf("%s (%s)", name, count(refused, "line")))
	}
	return nil
}
