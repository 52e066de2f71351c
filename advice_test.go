package grpo

import (
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
	var a adviser
	for step := range 30 {
		m := Metrics{Step: step + 1, Completions: 64, AllBad: 0.25, AllGood: 0.25, FormatRate: 0.9, Truncated: 0.1, Updated: true}
		m.KL2 = 0.01
		require.Empty(t, a.advise(m, Timing{Total: 10, Score: 1}))
	}
}

func TestEachRuleSpeaksOnItsEvidence(t *testing.T) {
	for rule, c := range map[string]struct {
		m Metrics
		t Timing
	}{
		"all groups wrong":          {m: Metrics{AllBad: 1}},
		"all groups right":          {m: Metrics{AllGood: 1}},
		"truncation":                {m: Metrics{Truncated: 0.6}},
		"time-outs":                 {m: Metrics{Completions: 10, Verdicts: map[reward.Verdict]int{reward.TLE: 6}}},
		"sandbox is the bottleneck": {t: Timing{Total: 10, Score: 4}},
		"reward errors":             {m: Metrics{Completions: 10, RewardErrors: 1}},
	} {
		var a adviser
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
	var a adviser
	spoke := 0
	for step := range 3 * silence {
		spoke += len(a.advise(Metrics{Step: step + 1, Truncated: 1}, Timing{}))
	}
	require.Equal(t, 3, spoke)
}

func TestFallingFormatAndJumpsAreSeen(t *testing.T) {
	var a adviser
	require.Empty(t, a.advise(Metrics{Step: 1, FormatRate: 0.9}, Timing{}))
	require.Equal(t, []string{"format falls"}, rules(a.advise(Metrics{Step: 2, FormatRate: 0.5}, Timing{})))

	jump := Metrics{Step: 3, FormatRate: 0.9, Updated: true}
	jump.KL2 = 0.2
	require.Equal(t, []string{"policy jumps"}, rules(a.advise(jump, Timing{})))
}

func TestTooManyRewardErrorsStopTheRun(t *testing.T) {
	var a adviser
	advice := a.advise(Metrics{Step: 1, Completions: 10, RewardErrors: 3}, Timing{})
	require.True(t, advice[0].Fatal)
	tr, _ := setup{steps: 1}.trainer(t)
	require.ErrorContains(t, tr.conclude(Metrics{Step: 1, Completions: 10, RewardErrors: 3}, Timing{}), "3 of 10 completions could not be scored: fix the reward first")
}
