package grpo

import (
	"cmp"
	"context"
	"fmt"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/readers"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/reward"
)

// Evaluation is the result of the policy on held-out problems. A truncated completion is wrong; one that the sandbox
// failed to judge counts neither as right nor as wrong.
type Evaluation struct {
	Step     int `json:"step"`
	Problems int `json:"problems"`
	// Greedy is pass@1 of the most likely completion, with an interval of 95 % (stats.Interval).
	Greedy     float64    `json:"pass@1_greedy"`
	GreedyCI   [2]float64 `json:"pass@1_greedy_ci"`
	FormatRate float64    `json:"format_rate"`
	NotJudged  int        `json:"not_judged"` // of all completions
	// Sampled has pass@1 and pass@k of sampled completions; nil without eval_samples.
	*Sampled
	// Conversations are statistics of the greedy completions, where they are conversations.
	Conversations *ConversationStats `json:"conversations,omitempty"`

	Judged     stats.Judged  `json:"-"` // the greedy completions by problem
	Change     *stats.Change `json:"-"` // since the first evaluation; nil in the first
	GreedyTry  Attempt       `json:"-"`
	SampledTry Attempt       `json:"-"`
}

// SameProblems reports whether two evaluations are of the same held-out problems, so that they can be compared.
func (e *Evaluation) SameProblems(o *Evaluation) bool { return e.outcome().SameProblems(o.outcome()) }

func (e *Evaluation) outcome() stats.Outcome {
	return stats.Outcome{Step: e.Step, Problems: e.Problems, Value: e.Greedy, Judged: e.Judged}
}

// Sampled are the pass rates of completions sampled at eval_temperature.
type Sampled = stats.Sampled

// Attempt is one pass over problems: scored completions of each.
type Attempt struct {
	Groups        []Group
	Seconds       float64 // of sampling
	Conversations *ConversationStats
}

// evaluateIfDue evaluates at the start, every eval_every steps and at the end, each once.
func (t *Trainer) evaluateIfDue(ctx context.Context) error {
	every := t.cfg.EvalEvery
	due := t.step%max(every, 1) == 0 || t.step == t.start || t.step == t.cfg.MaxSteps
	if every < 1 || len(t.HeldOut()) == 0 || !due || t.step < t.evaluated {
		return nil
	}
	e, err := t.Evaluate(ctx)
	if err != nil {
		return fmt.Errorf("evaluate: %w", err)
	}
	if t.first != nil && !t.first.SameProblems(&e) {
		t.first, t.advisor.Early = nil, nil // the held-out problems changed: this evaluation is the new baseline
	}
	if t.first != nil {
		e.Change = stats.Compare(t.first.Judged, e.Judged)
	}
	said := t.advisor.OnEvaluation(advice.Evaluation{Step: e.Step, Problems: len(e.Judged.Problems), Greedy: e.Greedy,
		MaxTests: t.cfg.MaxTests})
	if err := t.record.evaluation(e, said); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	e.SampledTry.Groups = nil // free them: later evaluations are compared with the greedy completions only
	if t.first == nil {
		t.first = &e
	}
	t.last, t.evaluated = &e, t.step+1
	t.watcher.Evaluated(e, said)
	t.report((*readers.Page).Update)
	return nil
}

// Evaluate measures the current policy on the held-out problems.
func (e *Evaluator) Evaluate(ctx context.Context) (r Evaluation, err error) {
	r = Evaluation{Step: e.step, Problems: len(e.HeldOut())}
	if r.GreedyTry, err = e.attempt(ctx, e.HeldOut(), 1, 0); err != nil {
		return r, err
	}
	r.countGreedy(e.cfg.Seed)
	r.Conversations = r.GreedyTry.Conversations
	if e.baseline.Step < e.step {
		r.Change = stats.Compare(e.baseline, r.Judged)
	}
	if e.cfg.EvalSamples == 0 {
		return r, nil
	}
	if r.SampledTry, err = e.attempt(ctx, e.HeldOut(), e.cfg.EvalSamples, float32(e.cfg.EvalTemperature)); err != nil {
		return r, err
	}
	r.countSampled(e.cfg.EvalK)
	return r, nil
}

// countGreedy computes the rates of the greedy completions.
func (e *Evaluation) countGreedy(seed uint64) {
	var right, format []float64
	for _, g := range e.GreedyTry.Groups {
		s := g.Rollouts[0].Score
		if s.Excluded == reward.ExcludedInfra {
			e.NotJudged++
			continue
		}
		program := 0.0
		if s.Excluded != reward.ExcludedTruncated && s.Components.Format == 0 {
			program = 1
		}
		right, format = append(right, s.Components.Correct), append(format, program)
		e.Judged.Problems = append(e.Judged.Problems, g.Problem.ID)
	}
	e.Judged.Step, e.Judged.Correct = e.Step, right
	e.Greedy, e.GreedyCI, e.FormatRate = stats.Mean(right), stats.Interval(right, seed), stats.Mean(format)
}

// countSampled computes pass@1, pass@k and best-of-k of the completions at eval_temperature.
func (e *Evaluation) countSampled(k int) {
	var pass1, passK, best []float64
	short, tried := 0, &stats.Tried{}
	for _, g := range e.SampledTry.Groups {
		judged, correct := g.countJudged()
		e.NotJudged += len(g.Rollouts) - judged
		if judged > 0 {
			pass1 = append(pass1, stats.PassAtK(judged, correct, 1))
			tried.Problems = append(tried.Problems, g.Problem.ID)
			tried.Judged, tried.Right = append(tried.Judged, judged), append(tried.Right, correct)
		}
		if judged < k {
			short++
			continue
		}
		passK, best = append(passK, stats.PassAtK(judged, correct, k)), append(best, g.bestOf(k))
	}
	e.Judged.Sampled = tried
	e.Sampled = &Sampled{K: k, PassAt1: stats.Mean(pass1), PassAtK: stats.MeanShare(passK), BestOfK: stats.MeanShare(best), LeftOut: short}
}

// Summary is the evaluation in one line. A nil evaluation says that there was none.
func (e *Evaluation) Summary() string {
	if e == nil {
		return "nothing was evaluated"
	}
	sampled, worth := "", ""
	if e.Sampled != nil {
		sampled = fmt.Sprintf(", %.3f sampled, pass@%d %s", e.PassAt1, e.K, e.AtK(e.Problems))
	}
	if e.Conversations != nil {
		sampled += ", " + e.Conversations.String()
	}
	switch {
	case e.Change != nil:
		worth = "; " + e.Change.String()
	case e.judged() < stats.MinProblems:
		worth = "; " + stats.TooFewNote(e.judged())
	}
	return fmt.Sprintf("held-out at step %d: pass@1 %s greedy%s%s", e.Step, stats.ShareText(e.Greedy, e.GreedyCI), sampled, worth)
}

// judged is the number of problems that were judged. Records of older versions lack it; there it is all problems.
func (e *Evaluation) judged() int { return cmp.Or(len(e.Judged.Problems), e.Problems) }
