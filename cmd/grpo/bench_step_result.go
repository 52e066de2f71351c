package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-7879b91d/grpo/reward"
)

// laden is a grader whose programs work for a while before they begin: in the sandbox, as part of
// themselves.
type laden struct {
	reward.Grader
	work     time.Duration
	sleep    bool         // in place of working
	programs atomic.Int64 // that were run
}

const (
	labour = `import time
labour = time.process_time() + %g
while time.process_time() < labour: pass
`
	rest = `import time
time.sleep(%g)
`
)

func (l *laden) Grade(ctx context.Context, c reward.Completion) (reward.Score, error) {
	code, ok := reward.Extract(c.Text)
	if ok && l.work > 0 {
		prelude := labour
		if l.sleep {
			prelude = rest
		}
		c.Text, c.Bare = fmt.Sprintf(prelude, l.work.Seconds())+code, true
	}
	s, err := l.Grader.Grade(ctx, c)
	if ok && !s.Cached && s.Verdict != reward.CE {
		l.programs.Add(1)
	}
	return s, err
}

// median is that of a measure over the steps.
func (r *stepRun) median(of func(stepTime) float64) float64 {
	values := make([]float64, len(r.steps))
	for i, s := range r.steps {
		values[i] = of(s)
	}
	return median(values)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// compare puts the rounds of all pipelines beside those of off.
func (r *stepResult) compare(runs map[string][]*stepRun) {
	var off pipelineResult
	for _, p := range pipelines {
		all := &stepRun{}
		result := pipelineResult{Pipeline: p}
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

// hidden is how many seconds of scoring another pipeline can have behind what the model does.
func (off *pipelineResult) hidden(pipeline string) float64 {
	switch pipeline {
	case "score":
		return min(off.Score, off.Sample)
	case "full":
		return min(off.Score, off.Sample+off.Train)
	}
	return 0
}

// print is the result for people.
func (r *stepResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s; sandbox: %s; load of the machine before: %.2f\n", r.Backend, r.Sandbox, r.Load)
	fmt.Fprintf(w, "preset %s with %s\n", r.Preset, strings.Join(r.Settings, " "))
	verb := "works"
	if r.Sleep {
		verb = "sleeps"
	}
	fmt.Fprintf(w, "every program %s for %.2f ms first: scoring takes %.0f %% of a step of pipeline=off\n", verb, r.WorkMS, 100*r.Share)
	fmt.Fprintf(w, "medians of %d steps in each of %d rounds\n\n", r.Steps, r.Rounds)
	t := newTable(w, "pipeline", "sample", "score", "train", "a step", "tokens/s", "model idle", "faster than off", "in each round", "at best")
	for _, p := range r.Pipelines {
		ms := func(seconds float64) string { return fmt.Sprintf("%.0f ms", 1000*seconds) }
		var each []string
		for _, x := range p.Each {
			each = append(each, fmt.Sprintf("%.2f", x))
		}
		t.row(p.Pipeline, ms(p.Sample), ms(p.Score), ms(p.Train), ms(p.Total), fmt.Sprintf("%.0f", p.Tokens), fmt.Sprintf("%.0f %%", 100*p.Idle),
			fmt.Sprintf("%.2f ×", p.Speedup), strings.Join(each, " "), fmt.Sprintf("%.2f ×", p.AtBest))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	off, score, full := r.Pipelines[0], r.Pipelines[1], r.Pipelines[2]
	same := "the same adapter"
	if !r.Equal {
		same = "DIFFERENT adapters, " + score.Adapter[:12]
	}
	fmt.Fprintf(w, "\noff and score ended with %s, %s; full learns from completions one update older, and ended with %s\n", same, off.Adapter[:12], full.Adapter[:12])
	return nil
}
