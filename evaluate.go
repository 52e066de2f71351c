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

// Evaluation is how the policy does on held-out problems. What was cut off is wrong; what the machine
// failed to judge counts neither as right nor as wrong.
type Evaluation struct {
	Step     int `json:"step"`
	Problems int `json:"problems"`
	// Greedy is pass@1 of the most likely completion, with an interval of 95 % (stats.Interval).
	Greedy     float64    `json:"pass@1_greedy"`
	GreedyCI   [2]float64 `json:"pass@1_greedy_ci"`
	FormatRate float64    `json:"format_rate"`
	NotJudged  int        `json:"not_judged"` // of all completions
	// Sampled is what sampled completions say; nil without eval_samples.
	*Sampled
	// Conversations are those of the greedy ones.
	Conversations *ConversationStats `json:"conversations,omitempty"`

	Judged     stats.Judged  `json:"-"` // the greedy completions by problem
	Change     *stats.Change `json:"-"` // since the first evaluation; nil where this is it
	GreedyTry  Attempt       `json:"-"`
	SampledTry Attempt       `json:"-"`
}

// SameProblems says whether two evaluations can be set beside each other: not where the run has other held-out problems since.
func (e *Evaluation) SameProblems(o *Evaluation) bool { return e.outcome().Alike(o.outcome()) }

func (e *Evaluation) outcome() stats.Outcome {
	return stats.Outcome{Step: e.Step, Problems: e.Problems, Value: e.Greedy, Judged: e.Judged}
}

// Sampled is what sampled completions say.
type Sampled = stats.Sampled

// Attempt is so many completions of each problem.
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
		t.first, t.advisor.Early = nil, nil // what is first is of the problems that are held out now
	}
	if t.first != nil {
		e.Change = stats.Compare(t.first.Judged, e.Judged)
	}
	said := t.advisor.OnEvaluation(advice.Evaluation{Step: e.Step, Problems: len(e.Judged.Problems), Greedy: e.Greedy,
		MaxTests: t.cfg.MaxTests})
	if err := t.record.evaluation(e, said); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	e.SampledTry.Groups = nil // only the greedy ones are compared later
	if t.first == nil {
		t.first = &e
	}
	t.last, t.evaluated = &e, t.step+1
	t.watcher.Evaluated(e, said)
	t.report((*readers.Page).GoesOn)
	return nil
}

// Evaluate tries the held-out problems with the policy as it is.
func (e *Evaluator) Evaluate(ctx context.Context) (r Evaluation, err error) {
	r = Evaluation{Step: e.step, Problems: len(e.HeldOut())}
	if r.GreedyTry, err = e.attempt(ctx, e.HeldOut(), 1, 0); err != nil {
		return r, err
	}
	r.countGreedy(e.cfg.Seed)
	r.Conversations = r.GreedyTry.Conversations
	if e.before.Step < e.step {
		r.Change = stats.Compare(e.before, r.Judged)
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

// countGreedy counts the most likely completions.
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

// countSampled counts the completions at eval_temperature.
func (e *Evaluation) countSampled(k int) {
	var pass1, passK, best []float64
	short, tried := 0, &stats.Tried{}
	for _, g := range e.SampledTry.Groups {
		judged, correct := g.judged()
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
		passK, best = append(passK, stats.PassAtK(judged, correct, k)), append(best, g.best(k))
	}
	e.Judged.Sampled = tried
	e.Sampled = &Sampled{K: k, PassAt1: stats.Mean(pass1), PassAtK: stats.Known(passK), BestOfK: stats.Known(best), LeftOut: short}
}

// Summary is an evaluation in one line; nil is one that was not made.
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
	case e.judged() < stats.Few:
		worth = "; " + stats.TooFew(e.judged())
	}
	return fmt.Sprintf("held-out at step %d: pass@1 %s greedy%s%s", e.Step, stats.ShareText(e.Greedy, e.GreedyCI), sampled, worth)
}

// judged is how many problems were judged; where the record does not say so, how many there were.
func (e *Evaluation) judged() int { return cmp.Or(len(e.Judged.Problems), e.Problems) }
