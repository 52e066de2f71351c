package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// StepResult is the result.
type StepResult struct {
	Bench     string           `json:"bench"`
	Backend   string           `json:"backend"`
	Sandbox   string           `json:"sandbox"`
	Load      float64          `json:"load_average"` // of the machine, before the benchmark
	Preset    string           `json:"preset"`
	Settings  []string         `json:"settings"`
	Steps     int              `json:"steps"`
	Rounds    int              `json:"rounds"`
	WorkMS    float64          `json:"work_ms"`       // added to every program
	Sleep     bool             `json:"sleep"`         // the added work is sleeping
	Share     float64          `json:"sandbox_share"` // of a step with pipeline=off
	Pipelines []PipelineResult `json:"pipelines"`
	// Equal says that pipeline=off and score gave the same adapter, to the bit.
	Equal bool `json:"equal_adapters"`
}

// PipelineResult is one pipeline: medians of its steps, and of its rounds relative to those of off.
type PipelineResult struct {
	Pipeline string    `json:"pipeline"`
	Sample   float64   `json:"sample_s"`
	Score    float64   `json:"score_s"` // while nothing else ran
	Train    float64   `json:"train_s"`
	Total    float64   `json:"total_s"`
	Tokens   float64   `json:"tokens_per_s"`
	Idle     float64   `json:"idle_share"` // the share of a step in which the model waits
	Speedup  float64   `json:"speedup"`
	Each     []float64 `json:"speedup_rounds"`
	AtBest   float64   `json:"speedup_at_best"`
	Adapter  string    `json:"trained_sha256"`
}

// pipelines are measured in this order. off is the base of the comparison.
var pipelines = []string{"off", "score", "full"}

// median is the median of a measure over the steps.
func (r *stepRun) median(of func(stepTime) float64) float64 {
	values := make([]float64, len(r.steps))
	for i, s := range r.steps {
		values[i] = of(s)
	}
	return median(values)
}

// median is the mean of the two middle values if their number is even.
func median[T float64 | time.Duration](x []T) T {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// compare compares the rounds of all pipelines with those of off.
func (r *StepResult) compare(runs map[string][]*stepRun) {
	var off PipelineResult
	for _, p := range pipelines {
		all := &stepRun{}
		result := PipelineResult{Pipeline: p}
		for i, run := range runs[p] {
			all.steps = append(all.steps, run.steps...)
			total := func(s stepTime) float64 { return s.total }
			result.Each = append(result.Each, runs["off"][i].median(total)/run.median(total))
			result.Adapter = run.adapter
		}
		result.Sample = all.median(func(s stepTime) float64 { return s.sample })
		result.Score = all.median(func(s stepTime) float64 { return s.score })
		result.Train = all.median(func(s stepTime) float64 { return s.train })
		result.Total = all.median(func(s stepTime) float64 { return s.total })
		result.Tokens = all.median(func(s stepTime) float64 { return float64(s.tokens) / s.total })
		result.Idle = all.median(func(s stepTime) float64 { return s.score / s.total })
		result.Speedup = median(result.Each)
		if p == "off" {
			off = result
		}
		result.AtBest = off.Total / (off.Total - off.hidden(p))
		r.Pipelines = append(r.Pipelines, result)
	}
	first := runs["off"][0]
	r.Backend, r.Sandbox, r.Share = first.backend, first.sandbox, off.Idle
	r.Equal = true
	for _, p := range pipelines[:2] {
		for _, run := range runs[p] {
			r.Equal = r.Equal && run.adapter == first.adapter
		}
	}
}

// hidden is how many seconds of scoring a pipeline can overlap with the model.
func (off *PipelineResult) hidden(pipeline string) float64 {
	switch pipeline {
	case "score":
		return min(off.Score, off.Sample)
	case "full":
		return min(off.Score, off.Sample+off.Train)
	}
	return 0
}

// Check is an error if the order of scores changed a result.
func (r *StepResult) Check() error {
	if !r.Equal {
		return fmt.Errorf("pipeline=off and score ended with different adapters: the order of scores changed a result")
	}
	return nil
}

// Report is the result for people.
func (r *StepResult) Report() Report {
	verb := "works"
	if r.Sleep {
		verb = "sleeps"
	}
	t := Report{
		Above: fmt.Sprintf("%s; sandbox: %s; load of the machine before: %.2f\n", r.Backend, r.Sandbox, r.Load) +
			fmt.Sprintf("preset %s with %s\n", r.Preset, strings.Join(r.Settings, " ")) +
			fmt.Sprintf("every program %s for %.2f ms first: scoring takes %.0f %% of a step of pipeline=off\n", verb, r.WorkMS, 100*r.Share) +
			fmt.Sprintf("medians of %d steps in each of %d rounds\n\n", r.Steps, r.Rounds),
		Header: []string{
			"pipeline", "sample", "score", "train", "a step", "tokens/s", "model idle", "faster than off", "in each round", "at best"},
	}
	for _, p := range r.Pipelines {
		ms := func(seconds float64) string { return fmt.Sprintf("%.0f ms", 1000*seconds) }
		var each []string
		for _, x := range p.Each {
			each = append(each, fmt.Sprintf("%.2f", x))
		}
		t.row(p.Pipeline, ms(p.Sample), ms(p.Score), ms(p.Train), ms(p.Total), fmt.Sprintf("%.0f", p.Tokens), percent(p.Idle),
			fmt.Sprintf("%.2f ×", p.Speedup), strings.Join(each, " "), fmt.Sprintf("%.2f ×", p.AtBest))
	}
	off, score, full := r.Pipelines[0], r.Pipelines[1], r.Pipelines[2]
	same := "the same adapter"
	if !r.Equal {
		same = "DIFFERENT adapters, " + score.Adapter[:12]
	}
	t.Below = fmt.Sprintf("\noff and score ended with %s, %s; full learns from completions one update older, and ended with %s\n",
		same, off.Adapter[:12], full.Adapter[:12])
	return t
}
