package grpo

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/objective"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/internal/recipe"
	"github.com/seed-7879b91d/grpo/internal/rollouts"
	"github.com/seed-7879b91d/grpo/internal/rundir"
	"github.com/seed-7879b91d/grpo/internal/stats"
	"github.com/seed-7879b91d/grpo/reward"
)

func TestRewardRisesAndTheFirstUpdateIsOnPolicy(t *testing.T) {
	if race.Enabled {
		t.Skip("shorter runs are the same goroutines")
	}
	words := []string{"max_steps=40", "eval_every=-1", "prompts_per_step=4", "completions_per_prompt=16", "learning_rate=0.01"}
	tr, l := setup{words: words}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Len(t, l.metrics, 40)
	early, late := 0.0, 0.0
	for i, m := range l.metrics {
		require.Zero(t, m.OnPolicy, "step %d", m.Step)
		require.True(t, m.Updated)
		if i < 5 {
			early += m.MeanReward / 5
		} else if i >= 35 {
			late += m.MeanReward / 5
		}
	}
	t.Logf("mean reward of the first five steps %.3f, of the last five %.3f", early, late)
	require.Greater(t, late, early+0.15)
}

func TestRunsAreEqualToTheByte(t *testing.T) {
	var want map[string]string
	for _, s := range []setup{{threads: 1}, {threads: 4}, {deferred: true}, {threads: 2, words: []string{"pipeline=off"}}} {
		s.dir, s.words = t.TempDir(), append(s.words, "max_steps=5")
		tr, _ := s.open(t)
		require.NoError(t, tr.Run(t.Context()))
		got := files(t, s.dir)
		if want == nil {
			want = got
		}
		requireSame(t, want, got)
	}
}

// With rounded rows, too, runs are equal to the byte and the ratio is 1 at the start of every step; but they differ from runs without.
func TestRoundedRunsAreEqualToTheByte(t *testing.T) {
	race.SkipCovered(t)
	run := func(threads int, precision string) map[string]string {
		// deterministic, so that the run ends if sampler and trainer differ
		s := setup{threads: threads, dir: t.TempDir(), words: []string{"max_steps=5", "deterministic=true", "precision=" + precision}}
		tr, _ := s.open(t)
		require.NoError(t, tr.Run(t.Context()))
		return files(t, s.dir)
	}
	want := run(1, "bf16")
	requireSame(t, want, run(3, "bf16"))
	require.NotEqual(t, want, run(1, "f32"))
}

func TestTheLastAndTheBestCheckpointsStay(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	tr, l := setup{dir: dir, words: []string{"max_steps=10", "keep_last=2", "keep_best=1", "eval_every=2"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	best := l.evals[0]
	for _, e := range l.evals {
		if e.Greedy > best.Greedy {
			best = e
		}
	}
	all, err := rundir.List(dir)
	require.NoError(t, err)
	require.Subset(t, all, []string{checkpoint(dir, 10), checkpoint(dir, 8)})
	if best.Step > 0 {
		require.Contains(t, all, checkpoint(dir, best.Step))
	}
	require.LessOrEqual(t, len(all), 3)
}

// Only an evaluation of a step with a checkpoint can be the best.
func TestTheBestIsAmongTheSaved(t *testing.T) {
	race.SkipCovered(t)
	dir := t.TempDir()
	tr, l := setup{dir: dir, words: []string{"max_steps=9", "keep_last=1", "keep_best=1", "eval_every=1", "save_every=3"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	best := l.evals[3]
	for _, step := range []int{6, 9} {
		if l.evals[step].Greedy > best.Greedy {
			best = l.evals[step]
		}
	}
	all, err := rundir.List(dir)
	require.NoError(t, err)
	require.Contains(t, all, checkpoint(dir, best.Step))
	require.Contains(t, all, checkpoint(dir, 9))
}

func TestWhatTheMachineFailedToScoreIsLeftOut(t *testing.T) {
	var n atomic.Int32 // completions are graded concurrently
	broken := func(ctx context.Context, c reward.Completion) (reward.Score, error) {
		if n.Add(1) == 1 {
			return reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, nil
		}
		return vowels(ctx, c)
	}
	tr, l := setup{words: []string{"max_steps=1", "eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(broken))}}.open(t)
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, m.RewardErrors)
	require.Equal(t, 11, m.Datums)
	require.Empty(t, l.warnings)
}

func TestAdvantages(t *testing.T) {
	require.Equal(t, []float64{-0.5, 0.5}, MeanAdvantages([]float64{0, 1}))
	require.Equal(t, []float64{-1, 1}, StdAdvantages([]float64{0, 1}))
	require.True(t, stats.Negligible(StdAdvantages([]float64{0.3, 0.3, 0.3})))

	for _, why := range []reward.Exclusion{reward.ExcludedInfra, reward.ExcludedReward, reward.ExcludedTruncated} { // excluded from the group
		drawn := Rollout{Tokens: []int32{7}, LogProbs: []float32{-1}}
		g := Group{Prompt: Prompt{Tokens: []int32{3}}, Rollouts: []Scored{{drawn, reward.Score{Reward: 1}},
			{drawn, reward.Score{Reward: 5, Excluded: why}}, {drawn, reward.Score{}}}}
		groups, err := compare(t.Context(), []Group{g}, &recipe.Recipe{Compare: objective.Comparison{Within: MeanAdvantages}}, nil)
		require.NoError(t, err)
		require.Equal(t, []float64{0.5, 0, -0.5}, groups[0].Advantages)
		require.Len(t, datums(groups), 2)
	}
}

// Rollouts carry their group and index, so they may arrive in any order.
func TestRolloutsSayWhereTheyBelong(t *testing.T) {
	var scored []Scored
	for _, at := range [][2]int{{1, 2}, {0, 0}, {1, 0}, {0, 2}, {1, 1}, {0, 1}} {
		scored = append(scored, Scored{Rollout: Rollout{Group: at[0], Sample: at[1]}})
	}
	for i, g := range gather([]Prompt{{Index: 0}, {Index: 1}}, scored) {
		require.Len(t, g.Rollouts, 3)
		for k, r := range g.Rollouts {
			require.Equal(t, Rollout{Group: i, Sample: k}, r.Rollout)
		}
	}
}

func TestNothingToLearnMeansNoUpdate(t *testing.T) {
	constant := func(context.Context, reward.Completion) (reward.Score, error) {
		return reward.Score{Reward: 1, Components: reward.Components{Correct: 1}}, nil
	}
	tr, _ := setup{options: []Option{WithGrader(reward.GraderFunc(constant))}}.open(t)
	before, err := tr.Policy().Adapter()
	require.NoError(t, err)
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.Equal(t, 2, m.GroupsSkipped)
	require.False(t, m.Updated)
	require.Zero(t, tr.learner.Adam.Steps())
	after, err := tr.Policy().Adapter()
	require.NoError(t, err)
	require.Equal(t, before.Values, after.Values)
}

// Groups that teach nothing are replaced a limited number of times, and only until enough groups teach.
func TestRefillsHaveAnEnd(t *testing.T) {
	same := func(context.Context, reward.Completion) (reward.Score, error) { return reward.Score{Reward: 1}, nil }
	refilled := func(g reward.GraderFunc) (Metrics, error) {
		tr, _ := setup{words: []string{"refill=true", "max_refills=2"}, options: []Option{WithGrader(g)}}.open(t)
		return tr.Step(t.Context(), nil, StepOptions{})
	}
	m, err := refilled(same)
	require.NoError(t, err)
	require.Equal(t, []int{4, 6}, []int{m.Refilled, m.GroupsSkipped})
	m, err = refilled(vowels)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{m.Refilled, m.GroupsSkipped})
	unscored := Group{Advantages: []float64{0}, Rollouts: []Scored{{Score: reward.Score{Excluded: reward.ExcludedInfra}}}}
	s := groupStats([]Group{unscored})
	require.Zero(t, s.AllGood+s.AllBad, "a group without scores is neither all good nor all bad")
}

func TestMetricsCarryNoClock(t *testing.T) {
	text, err := json.Marshal(Metrics{})
	require.NoError(t, err)
	for _, word := range []string{"_s\"", "time", "per_s"} {
		require.NotContains(t, string(text), word)
	}
}

// Steps on problems of the caller count as steps of the trainer: the warm-up happens once.
func TestStepsOnProblemsOfTheCaller(t *testing.T) {
	dir := t.TempDir()
	tr, _ := setup{dir: dir, words: []string{"warmup_steps=2", "learning_rate=0.001"}}.open(t)
	cursor := tr.Pool().Cursor()
	for i, rate := range []float64{0.0005, 0.001, 0.001} {
		m, err := tr.Step(t.Context(), tr.HeldOut()[:3], StepOptions{Iterations: 2})
		require.NoError(t, err)
		require.Equal(t, i+1, m.Step)
		require.Equal(t, 3, m.GroupsTotal)
		require.InDelta(t, rate, m.LearningRate, 1e-12)
		require.Zero(t, m.OnPolicy)
	}
	require.LessOrEqual(t, tr.learner.Adam.Steps(), 6)
	require.Equal(t, cursor, tr.Pool().Cursor())
	m, err := tr.Step(t.Context(), nil, StepOptions{})
	require.NoError(t, err)
	require.Equal(t, 2, m.GroupsTotal)
	require.NotEqual(t, cursor, tr.Pool().Cursor())

	// Every step is recorded in full, whoever called it.
	require.Len(t, lines(t, dir, metricsFile), 4)
	require.Len(t, lines(t, dir, trainLogFile), 4)
	require.Len(t, lines(t, dir, rollouts.PlainFile), 3*3*6+2*6)

	saved, err := tr.Save(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(saved, rundir.StateFile))
	groups, err := tr.Sample(t.Context(), tr.HeldOut()[:2], 3, 0)
	require.NoError(t, err)
	require.Len(t, groups, 2)
	for _, g := range groups {
		require.Equal(t, g.Rollouts[0].Text, g.Rollouts[2].Text, "greedy completions are equal")
		require.NotEqual(t, reward.INFRA, g.Rollouts[0].Score.Verdict)
	}
	_, err = tr.Sample(t.Context(), tr.HeldOut(), 0, 0)
	require.EqualError(t, err, "0 completions of each problem, expected 1 or more")
}

func TestAnUnrecordedTrainerWritesNothing(t *testing.T) {
	goldenModel(t) // before the working directory changes
	t.Chdir(t.TempDir())
	tr, _ := setup{words: []string{"max_steps=2"}}.open(t)
	require.NoError(t, tr.Run(t.Context()))
	require.Empty(t, tr.RunDir())
	_, err := tr.Save(t.Context())
	require.ErrorContains(t, err, "unrecorded")
	require.NoDirExists(t, "runs")
}
