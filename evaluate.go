package grpo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/sampler"
)

// EvalRules are how held-out problems are tried.
type EvalRules struct {
	Problems    int // the first so many; 0: all
	Samples     int // completions at Temperature, for pass@k; 0: greedy only
	K           int
	Temperature float32
	Sampling    sampler.Params
}

// Evaluation is how the policy does on held-out problems.
type Evaluation struct {
	Step     int `json:"step"`
	Problems int `json:"problems"`
	// Greedy is pass@1 of the most likely completion, with a bootstrap interval of 95 %.
	Greedy     float64    `json:"pass@1_greedy"`
	GreedyCI   [2]float64 `json:"pass@1_greedy_ci"`
	FormatRate float64    `json:"format_rate"`
	// PassAt1 and PassAtK are the unbiased estimates from sampled completions, BestOfK the mean of the
	// best reward among the first K.
	K       int     `json:"k,omitempty"`
	PassAt1 float64 `json:"pass@1,omitempty"`
	PassAtK float64 `json:"pass@k,omitempty"`
	BestOfK float64 `json:"best_of_k,omitempty"`

	solved []bool // greedy, by problem
	texts  []string
}

// evaluateIfDue evaluates at the start, every EvalEvery steps and at the end, each once.
func (t *Trainer) evaluateIfDue(ctx context.Context) error {
	due := t.step%max(t.EvalEvery, 1) == 0 || t.step == t.start || t.step == t.MaxSteps
	if t.EvalEvery < 1 || len(t.HeldOut) == 0 || !due || t.step < t.evaluated {
		return nil
	}
	e, err := t.Evaluate(ctx)
	if err != nil {
		return fmt.Errorf("step %d: evaluate: %w", t.step, err)
	}
	advice := t.judge.adviseOn(e)
	if t.record != nil {
		if err := errors.Join(t.record.evaluation(e), t.record.advice(e.Step, advice)); err != nil {
			return fmt.Errorf("step %d: record: %w", t.step, err)
		}
	}
	if t.first == nil {
		t.first = &e
	}
	t.last, t.evaluated = &e, t.step+1
	t.Watcher.Evaluated(e, advice)
	t.report()
	return nil
}

// Evaluate tries the held-out problems with the policy as it is.
func (t *Trainer) Evaluate(ctx context.Context) (Evaluation, error) {
	problems := t.HeldOut
	if n := t.Eval.Problems; n > 0 && n < len(problems) {
		problems = problems[:n]
	}
	e := Evaluation{Step: t.step, Problems: len(problems), K: t.Eval.K, solved: make([]bool, len(problems)), texts: make([]string, len(problems))}
	greedy, err := t.attempt(ctx, problems, 1, 0)
	if err != nil {
		return e, err
	}
	right := make([]float64, len(problems))
	for i, g := range greedy {
		right[i] = g.Scores[0].Components.Correct
		e.solved[i], e.texts[i] = right[i] == 1, g.Texts[0]
		if g.Scores[0].Components.Format == 0 {
			e.FormatRate += 1 / float64(len(problems))
		}
	}
	e.Greedy, e.GreedyCI = mean(right), bootstrap(right, t.Seed)
	if t.Eval.Samples == 0 {
		e.K = 0
		return e, nil
	}
	sampled, err := t.attempt(ctx, problems, t.Eval.Samples, t.Eval.Temperature)
	if err != nil {
		return e, err
	}
	for _, g := range sampled {
		n, correct := g.counts()
		e.PassAt1 += passAtK(n, correct, 1) / float64(len(problems))
		e.PassAtK += passAtK(n, correct, e.K) / float64(len(problems))
		e.BestOfK += g.best(e.K) / float64(len(problems))
	}
	return e, nil
}

// Summary is an evaluation in one line.
func (e Evaluation) Summary() string {
	sampled := ""
	if e.K > 0 {
		sampled = fmt.Sprintf(", %.3f sampled, pass@%d %.3f", e.PassAt1, e.K, e.PassAtK)
	}
	return fmt.Sprintf("held-out at step %d: pass@1 %.3f [%.3f, %.3f] greedy%s", e.Step, e.Greedy, e.GreedyCI[0], e.GreedyCI[1], sampled)
}

// evalStep keys the draws of evaluations, which must not be those of training.
const evalStep = -1

// attempt gives scored completions of problems.
func (t *Trainer) attempt(ctx context.Context, problems []data.Problem, n int, temperature float32) ([]*Group, error) {
	groups, err := t.render(problems)
	if err != nil {
		return nil, err
	}
	params := t.Eval.Sampling
	params.Temperature = temperature
	requests := make([]sampler.Request, len(groups))
	for i, g := range groups {
		requests[i] = sampler.Request{Prompt: g.Prompt, N: n, Params: params, Key: sampler.Key{Seed: t.Seed, Step: evalStep, Problem: i}}
	}
	var timing Timing
	s, err := t.sample(ctx, groups, requests, &timing)
	if err != nil {
		return nil, err
	}
	if err := t.await(ctx, s, &timing); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return groups, nil
}

// passAtK is the unbiased chance that one of k completions is right, when c of n were.
func passAtK(n, c, k int) float64 {
	if n < k || k < 1 {
		k = max(min(n, k), 1)
	}
	miss := 1.0
	for i := range k {
		if n-c-i <= 0 {
			return 1
		}
		miss *= float64(n-c-i) / float64(n-i)
	}
	return 1 - miss
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / math.Max(1, float64(len(x)))
}

// bootstrap is the interval that the mean falls into in 95 of 100 resamplings.
func bootstrap(x []float64, seed uint64) [2]float64 {
	if len(x) == 0 {
		return [2]float64{}
	}
	const rounds = 2000
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	means := make([]float64, rounds)
	for r := range means {
		sum := 0.0
		for range x {
			sum += x[rng.IntN(len(x))]
		}
		means[r] = sum / float64(len(x))
	}
	slices.Sort(means)
	return [2]float64{means[rounds*25/1000], means[rounds*975/1000-1]}
}

// Flipped is a problem that the policy got wrong before and right after.
type Flipped struct {
	Problem       data.Problem
	Before, After string
}

// Flips compares two evaluations and gives up to n problems that flipped from wrong to right.
func (t *Trainer) Flips(n int) []Flipped {
	var flips []Flipped
	if t.first == nil || t.last == nil || t.first == t.last || t.first.solved == nil {
		return nil // or the first was before the run was resumed
	}
	for i := range t.first.solved {
		if !t.first.solved[i] && t.last.solved[i] && len(flips) < n {
			flips = append(flips, Flipped{t.HeldOut[i], t.first.texts[i], t.last.texts[i]})
		}
	}
	return flips
}

// Evaluations are the first and the last of the run, nil where there was none.
func (t *Trainer) Evaluations() (first, last *Evaluation) { return t.first, t.last }
