package grpo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/reward"
	"github.com/seed-7879b91d/grpo/sampler"
)

// EvalRules are how held-out problems are tried.
type EvalRules struct {
	Samples     int // completions at Temperature, for pass@k; 0: greedy only
	K           int
	Temperature float32
	Sampling    sampler.Params
}

// Evaluation is how the policy does on held-out problems. What was cut off is wrong; what the machine
// failed to judge counts neither as right nor as wrong.
type Evaluation struct {
	Step     int `json:"step"`
	Problems int `json:"problems"`
	// Greedy is pass@1 of the most likely completion, with a bootstrap interval of 95 %.
	Greedy     float64    `json:"pass@1_greedy"`
	GreedyCI   [2]float64 `json:"pass@1_greedy_ci"`
	FormatRate float64    `json:"format_rate"`
	NotJudged  int        `json:"not_judged"` // of all completions
	// Sampled is what sampled completions say; nil without eval_samples.
	*Sampled

	GreedyTry  Attempt `json:"-"`
	SampledTry Attempt `json:"-"`
}

// Sampled are the unbiased estimates of pass@1 and pass@k from sampled completions, and the mean of the
// best reward among the first k.
type Sampled struct {
	K       int     `json:"k"`
	PassAt1 float64 `json:"pass@1"`
	PassAtK float64 `json:"pass@k"`
	BestOfK float64 `json:"best_of_k"`
}

// Attempt is so many completions of each problem.
type Attempt struct {
	Groups  []*Group
	Seconds float64 // of sampling
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
		if err := t.record.evaluation(e, advice); err != nil {
			return fmt.Errorf("step %d: record: %w", t.step, err)
		}
	}
	e.SampledTry.Groups = nil // only the greedy ones are compared later
	if t.first == nil {
		t.first = &e
	}
	t.last, t.evaluated = &e, t.step+1
	t.Watcher.Evaluated(e, advice)
	t.report()
	return nil
}

// Evaluate tries the held-out problems with the policy as it is.
func (t *Trainer) Evaluate(ctx context.Context) (e Evaluation, err error) {
	problems := t.HeldOut
	e = Evaluation{Step: t.step, Problems: len(problems)}
	if e.GreedyTry, err = t.attempt(ctx, problems, 1, 0); err != nil {
		return e, err
	}
	var right, format []float64
	for _, g := range e.GreedyTry.Groups {
		s := g.Scores[0]
		if s.Excluded == reward.ExcludedInfra {
			e.NotJudged++
			continue
		}
		program := 0.0
		if s.Excluded == "" && s.Components.Format == 0 {
			program = 1
		}
		right, format = append(right, s.Components.Correct), append(format, program)
	}
	e.Greedy, e.GreedyCI, e.FormatRate = mean(right), bootstrap(right, t.Seed), mean(format)
	if t.Eval.Samples == 0 {
		return e, nil
	}
	if e.SampledTry, err = t.attempt(ctx, problems, t.Eval.Samples, t.Eval.Temperature); err != nil {
		return e, err
	}
	var pass1, passK, best []float64
	for _, g := range e.SampledTry.Groups {
		judged, correct := g.judged()
		e.NotJudged += len(g.Scores) - judged
		if judged == 0 {
			continue
		}
		pass1, passK = append(pass1, passAtK(judged, correct, 1)), append(passK, passAtK(judged, correct, t.Eval.K))
		best = append(best, g.best(t.Eval.K))
	}
	e.Sampled = &Sampled{K: t.Eval.K, PassAt1: mean(pass1), PassAtK: mean(passK), BestOfK: mean(best)}
	return e, nil
}

// Summary is an evaluation in one line.
func (e Evaluation) Summary() string {
	sampled := ""
	if e.Sampled != nil {
		sampled = fmt.Sprintf(", %.3f sampled, pass@%d %.3f", e.PassAt1, e.K, e.PassAtK)
	}
	return fmt.Sprintf("held-out at step %d: pass@1 %.3f [%.3f, %.3f] greedy%s", e.Step, e.Greedy, e.GreedyCI[0], e.GreedyCI[1], sampled)
}

// evalStep keys the draws of evaluations, which must not be those of training.
const evalStep = -1

// attempt gives scored completions of problems.
func (t *Trainer) attempt(ctx context.Context, problems []data.Problem, n int, temperature float32) (a Attempt, err error) {
	if a.Groups, err = t.render(problems); err != nil {
		return a, err
	}
	params := t.Eval.Sampling
	params.Temperature = temperature
	requests := make([]sampler.Request, len(a.Groups))
	for i, g := range a.Groups {
		requests[i] = sampler.Request{Prompt: g.Prompt, N: n, Params: params, Key: sampler.Key{Seed: t.Seed, Step: evalStep, Problem: i}}
	}
	var timing Timing
	s, err := t.sample(ctx, a.Groups, requests, &timing)
	if err != nil {
		return a, err
	}
	if err := t.await(ctx, s, &timing); err != nil {
		return a, errors.Join(err, s.abandon())
	}
	a.Seconds = timing.Sample
	return a, nil
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

// Flips compares two evaluations and gives up to n problems that flipped from wrong to right. There are
// none after a resume, when the first evaluation is only a line in the record.
func (t *Trainer) Flips(n int) []Flipped {
	var flips []Flipped
	if t.first == nil || t.last == nil {
		return nil
	}
	after := t.last.GreedyTry.Groups
	for i, g := range t.first.GreedyTry.Groups {
		if g.Scores[0].Excluded == "" && g.Scores[0].Components.Correct == 0 && after[i].Scores[0].Components.Correct == 1 && len(flips) < n {
			flips = append(flips, Flipped{g.Problem, g.Texts[0], after[i].Texts[0]})
		}
	}
	return flips
}

// Evaluations are the first and the last of the run, nil where there was none.
func (t *Trainer) Evaluations() (first, last *Evaluation) { return t.first, t.last }
