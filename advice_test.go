package grpo

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/reward"
)

// rules gives the names of the rules that spoke.
func rules(advice []Advice) (names []string) {
	for _, a := range advice {
		names = append(names, a.Rule)
	}
	return names
}

func TestAdviceIsQuietWhenAllIsWell(t *testing.T) {
	var a advisor
	for step := range 30 {
		m := Metrics{Step: step + 1, CompletionStats: CompletionStats{Completions: 64, Truncated: 0.1},
			GroupStats: GroupStats{AllBad: 0.25, AllGood: 0.25}, RewardStats: RewardStats{FormatRate: 0.9}, Update: Update{Updated: true}}
		m.Stats.KL2, m.Drift.KL2 = 0.01, 0.02
		require.Empty(t, a.advise(m, Timing{Total: 10, Score: 1}))
	}
}

func TestEachRuleSpeaksOnItsEvidence(t *testing.T) {
	verdicts := map[reward.Verdict]int{reward.TLE: 6}
	for rule, c := range map[string]struct {
		m Metrics
		t Timing
	}{
		"all groups wrong":          {m: Metrics{GroupStats: GroupStats{AllBad: 1}}},
		"all groups right":          {m: Metrics{GroupStats: GroupStats{AllGood: 1}}},
		"truncation":                {m: Metrics{CompletionStats: CompletionStats{Truncated: 0.6}}},
		"time-outs":                 {m: Metrics{CompletionStats: CompletionStats{Completions: 10, Verdicts: verdicts}}},
		"sandbox is the bottleneck": {t: Timing{Total: 10, Score: 4}},
		"reward errors":             {m: Metrics{CompletionStats: CompletionStats{Completions: 10, RewardErrors: 1}}},
	} {
		var a advisor
		var said []string
		for step := range patience {
			c.m.Step = step + 1
			said = append(said, rules(a.advise(c.m, c.t))...)
		}
		require.Contains(t, said, rule)
		for _, s := range said {
			require.Equal(t, rule, s)
		}
	}
}

func TestARuleDoesNotNag(t *testing.T) {
	var a advisor
	spoke := 0
	for step := range 3 * silence {
		spoke += len(a.advise(Metrics{Step: step + 1, CompletionStats: CompletionStats{Truncated: 1}}, Timing{}))
	}
	require.Equal(t, 3, spoke)
}

func TestFallingFormatAndJumpsAreSeen(t *testing.T) {
	var a advisor
	require.Empty(t, a.advise(Metrics{Step: 1, RewardStats: RewardStats{FormatRate: 0.9}}, Timing{}))
	require.Equal(t, []string{"format falls"}, rules(a.advise(Metrics{Step: 2, RewardStats: RewardStats{FormatRate: 0.5}}, Timing{})))

	jump := Metrics{Step: 3, RewardStats: RewardStats{FormatRate: 0.9}, Update: Update{Updated: true}}
	jump.Drift.KL2 = 0.2
	require.Equal(t, []string{"policy jumps"}, rules(a.advise(jump, Timing{})))
}

func TestTooManyRewardErrorsStopTheRun(t *testing.T) {
	var a advisor
	advice := a.advise(Metrics{Step: 1, CompletionStats: CompletionStats{Completions: 10, RewardErrors: 3}}, Timing{})
	require.True(t, advice[0].Fatal)

	failing := func(_ context.Context, c reward.Completion) (reward.Score, error) {
		return reward.Score{Excluded: reward.ExcludedInfra, Verdict: reward.INFRA}, nil
	}
	tr, _ := setup{words: []string{"eval_every=-1"}, options: []Option{WithGrader(reward.GraderFunc(failing))}}.open(t)
	require.ErrorContains(t, tr.Run(t.Context()), "step 1: 12 of 12 completions could not be scored: fix the reward first")
}

func TestSwingsAreSeen(t *testing.T) {
	var a advisor
	var said []string
	for step, kl := range []float64{0.01, 0.05, 0.01, 0.05, 0.01, 0.05} {
		m := Metrics{Step: step + 1, Update: Update{Updated: true}}
		m.Drift.KL2 = kl
		said = append(said, rules(a.advise(m, Timing{}))...)
	}
	require.Equal(t, []string{"policy swings"}, said)

	a = advisor{}
	// Falling, then too small to matter.
	for step, kl := range []float64{0.04, 0.009, 0.002, 0.0004, 0.002, 0.009, 0.001, 0.009, 0.001, 0.009} {
		m := Metrics{Step: step + 1, Update: Update{Updated: true}}
		m.Drift.KL2 = kl
		require.Empty(t, a.advise(m, Timing{}))
	}
}

// A reward that rises while held-out problems stay where they were is earned by a trick.
func TestRewardWithoutSkillIsSeen(t *testing.T) {
	for _, c := range []struct {
		rewards, greedy []float64
		alarm           bool
	}{
		{[]float64{0.2, 0.3, 0.5}, []float64{0.30, 0.30, 0.31}, true},
		{[]float64{0.2, 0.3, 0.5}, []float64{0.30, 0.35, 0.45}, false},   // held-out problems follow
		{[]float64{0.2, 0.22, 0.25}, []float64{0.30, 0.30, 0.30}, false}, // nothing rises
		{[]float64{0.2, 0.5, 0.6}, []float64{0.30, 0.20, 0.10}, true},
	} {
		var a advisor
		require.Empty(t, a.adviseOn(Evaluation{Greedy: c.greedy[0]}), "no step was taken")
		var said []string
		for i, r := range c.rewards {
			for k := range 10 {
				a.advise(Metrics{Step: 10*i + k + 1, RewardStats: RewardStats{MeanReward: r}}, Timing{})
			}
			said = append(said, rules(a.adviseOn(Evaluation{Step: 10 * (i + 1), Greedy: c.greedy[i]}))...)
		}
		require.Equal(t, c.alarm, len(said) > 0, "%+v: %v", c, said)
	}
}

// What the advisor remembers survives a checkpoint, but for what hangs on the clock.
func TestTheAdviserIsSaved(t *testing.T) {
	a, slow := advisor{}, Timing{Total: 1, Score: 1}
	for step := range 5 {
		a.advise(Metrics{Step: step + 1, GroupStats: GroupStats{AllBad: 1}, RewardStats: RewardStats{MeanReward: 0.1}}, slow)
	}
	a.adviseOn(Evaluation{Step: 5, Greedy: 0.5})
	text, err := json.Marshal(a)
	require.NoError(t, err)
	var b advisor
	require.NoError(t, json.Unmarshal(text, &b))
	require.NotZero(t, a.slow)
	require.True(t, a.saidSlow)
	a.slow, a.saidSlow = 0, false
	require.Equal(t, a, b)
}
