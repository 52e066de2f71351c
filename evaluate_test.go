package grpo

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/footprint"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/reward"
)

// Completions that the machine failed to judge are neither right nor wrong in an evaluation; truncated ones are wrong.
func TestAnEvaluationLeavesOutWhatWasNotJudged(t *testing.T) {
	grade := func(s reward.Score) Evaluation {
		scores := map[string]reward.Score{"h0": {Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, "h1": s,
			"h2": {Verdict: reward.AC, Reward: 1, Components: reward.Components{Correct: 1}}}
		byProblem := func(_ context.Context, c reward.Completion) (reward.Score, error) { return scores[c.Problem.ID], nil }
		tr, _ := setup{options: []Option{WithGrader(reward.GraderFunc(byProblem))}}.open(t)
		e, err := tr.Evaluate(t.Context())
		require.NoError(t, err)
		return e
	}
	e := grade(reward.Score{Verdict: reward.WA})
	require.Equal(t, 0.5, e.Greedy)
	require.Equal(t, 1.0, e.FormatRate)
	require.Equal(t, 3, e.NotJudged, "one greedy and two sampled")
	require.Equal(t, 0.5, e.PassAt1)
	require.EqualValues(t, 0.5, e.BestOfK)
	require.Equal(t, 1, e.LeftOut)
	require.Equal(t, "0.500 (without 1 of 3 problems)", e.AtK(e.Problems))
	require.Equal(t, stats.Judged{Problems: []string{"h1", "h2"}, Correct: []float64{0, 1},
		Sampled: &stats.Tried{Problems: []string{"h1", "h2"}, Judged: []int{2, 2}, Right: []int{0, 2}}}, e.Judged)
	require.Contains(t, e.Summary(), "; 2 problems are too few to say")

	e = grade(reward.Score{Excluded: reward.ExcludedTruncated})
	require.Equal(t, 0.5, e.Greedy)
	require.Equal(t, 0.5, e.FormatRate)
	require.EqualValues(t, 0.5, e.PassAtK)
	require.Equal(t, 3, e.NotJudged)
}

// pass@k is never computed from fewer than k samples, and a sandbox failure counts as neither.
func TestPassAtKIsOfK(t *testing.T) {
	var asked atomic.Int32
	failing := func(fails func(n int32) bool) Evaluation {
		asked.Store(0)
		grade := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
			if fails(asked.Add(1)) {
				return reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, nil
			}
			return reward.Score{Verdict: reward.AC, Reward: 1, Components: reward.Components{Correct: 1}}, nil
		}
		tr, _ := setup{options: []Option{WithGrader(reward.GraderFunc(grade))}}.open(t)
		e, err := tr.Evaluate(t.Context())
		require.NoError(t, err)
		return e
	}
	e := failing(func(n int32) bool { return n == 4 }) // one of the samples
	require.Equal(t, Sampled{K: 2, PassAt1: 1, PassAtK: 1, BestOfK: 1, LeftOut: 1}, *e.Sampled)
	require.Equal(t, 1.0, e.GreedyCI[1])
	require.InDelta(t, 0.438, e.GreedyCI[0], 1e-3, "three of three problems do not prove that all are right")

	e = failing(func(int32) bool { return true })
	require.Equal(t, [2]float64{0, 1}, e.GreedyCI)
	require.Equal(t, "unknown", e.AtK(e.Problems))
	text, err := json.Marshal(e)
	require.NoError(t, err)
	require.Contains(t, string(text), `"pass@k":null,"best_of_k":null,"k_left_out":3`)
	text, err = json.Marshal(failing(func(int32) bool { return false }))
	require.NoError(t, err)
	require.NotContains(t, string(text), "left_out", "no count without excluded completions")
}

// best@k is of k judged completions: one that the machine failed to judge is not among them.
func TestTheBestIsOfKThatWereJudged(t *testing.T) {
	var g Group
	for _, s := range []reward.Score{{Reward: -3}, {Excluded: reward.ExcludedInfra}, {Reward: -1}, {Reward: 5}} {
		g.Rollouts = append(g.Rollouts, Scored{Score: s})
	}
	require.Equal(t, -3.0, g.bestOf(1))
	require.Equal(t, -1.0, g.bestOf(2))
	require.Equal(t, 5.0, g.bestOf(3))
	g.Rollouts[2].Score.Excluded = reward.ExcludedTruncated
	require.Equal(t, -3.0, g.bestOf(2), "truncated completions count as judged")
	require.Zero(t, (&Group{}).bestOf(2))
}

// Each evaluation of a run reports its difference from the first, problem by problem, also after an interruption.
func TestEvaluationsAreComparedWithTheFirst(t *testing.T) {
	s := setup{dir: t.TempDir(), words: []string{"max_steps=4", "eval_every=2"}}
	tr, l := s.open(t)
	run(t, tr)
	require.Nil(t, l.evals[0].Change)
	want := l.evals[2].Change
	require.Equal(t, stats.Compare(l.evals[0].Judged, l.evals[2].Judged), want)
	require.Contains(t, l.evals[2].Summary(), "; "+want.String())

	s.words = append(s.words, "resume="+checkpoint(s.dir, 2))
	tr, l = s.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, want, l.evals[len(l.evals)-1].Change)
}

// An evaluator has no optimizer, no gradients and no training problems; its results are those of the run's own evaluation.
func TestAnEvaluatorAgreesWithTheRun(t *testing.T) {
	dir := t.TempDir()
	tr, l := setup{dir: dir, words: []string{"max_steps=4"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	e, err := OpenRun(t.Context(), dir, backend(t, 0), nil, func(c *configs.Config) error {
		c.Data = "/is/not/there"
		return nil
	}, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	_, grads, _ := e.policy.Slabs()
	require.Nil(t, grads)
	layout, err := footprint.AdapterLayout(e.cfg, e.policy.LoRADims())
	require.NoError(t, err)
	require.Equal(t, kernels.F32.Size()*layout.Len(), tr.sampling.memory.BytesOf("adapter")-e.sampling.memory.BytesOf("adapter"))
	found, err := e.Evaluate(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.Close())
	want := l.evals[len(l.evals)-1]
	require.Equal(t, want.Greedy, found.Greedy)
	require.Equal(t, want.Sampled, found.Sampled)
	require.Equal(t, 4, found.Step)
}

// Only the run itself needs the adapter that it began with: an evaluator reads what the run has learned.
func TestAnEvaluatorReadsNoAdapterThatTheRunBeganWith(t *testing.T) {
	words := []string{"max_steps=1", "eval_every=-1"}
	before := setup{dir: filepath.Join(t.TempDir(), "run"), words: words}
	tr, _ := before.open(t)
	run(t, tr)
	adapter := filepath.Join(t.TempDir(), "adapter")
	require.NoError(t, os.Rename(filepath.Join(before.dir, "checkpoints", "step_000001", "adapter"), adapter))
	after := setup{dir: filepath.Join(t.TempDir(), "run"), words: append(words, "adapter="+adapter)}
	tr, _ = after.open(t)
	run(t, tr)
	want, err := tr.Policy().Hash()
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(adapter))
	saved, err := OpenSaved(after.dir, -1, nil)
	require.NoError(t, err)
	_, err = saved.Language(t.Context()) // for sampling, serving and export
	require.NoError(t, err)
	e, err := OpenRun(t.Context(), after.dir, backend(t, 0), nil, nil, WithGrader(reward.GraderFunc(vowels)))
	require.NoError(t, err)
	defer e.Close()
	got, err := e.policy.Hash()
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// If the held-out problems change, an evaluation is not compared with earlier ones, and the best checkpoint for each set is kept.
func TestOtherProblemsAreHeldOut(t *testing.T) {
	race.SkipCovered(t)
	words := []string{"eval_every=1", "save_every=1", "keep_last=1", "keep_best=1"}
	s := setup{dir: t.TempDir(), words: append(words, "max_steps=3", "eval_problems=1")}
	tr, _ := s.open(t)
	run(t, tr)
	first, last := tr.Evaluations()
	require.Equal(t, 0, first.Step)
	require.NotNil(t, last.Change)

	s.words = append(words, "max_steps=6", "eval_problems=3")
	tr, _ = s.open(t)
	run(t, tr)
	first, last = tr.Evaluations()
	require.Equal(t, 4, first.Step, "the first evaluation of the same three problems")
	require.Equal(t, 4, last.Change.Since)
	require.Equal(t, 4, tr.advisor.Early.Step, "advice is compared with the same evaluation")
	best := func(problems int) int {
		all, err := tr.record.evaluations()
		require.NoError(t, err)
		all = slices.DeleteFunc(all, func(e Evaluation) bool { return e.Problems != problems || e.Step == 0 }) // step 0 has no checkpoint
		return slices.MaxFunc(all, func(a, b Evaluation) int { return cmp.Compare(a.Greedy, b.Greedy) }).Step
	}
	for _, step := range []int{best(1), best(3), 6} {
		require.DirExists(t, tr.record.Checkpoint(step))
	}

	tr, _ = s.open(t)
	run(t, tr) // no step is left
	again, _ := tr.Evaluations()
	require.Equal(t, 4, again.Step, "it is restored from the record")
}
