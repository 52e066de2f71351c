package advice

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rules returns the names of the rules that fired.
func rules(advice []Advice) (names []string) {
	for _, a := range advice {
		names = append(names, a.Rule)
	}
	return names
}

func TestAdviceIsQuietWhenAllIsWell(t *testing.T) {
	var a Advisor
	for step := range 30 {
		require.Empty(t, a.OnStep(Step{Number: step + 1, Completions: 64, Truncated: 0.1, Groups: 8, Skipped: 4, Format: 0.9,
			Updated: true, KL: 0.02, Seconds: 10, Waited: 1}))
	}
}

func TestEachRuleSpeaksOnItsEvidence(t *testing.T) {
	for rule, s := range map[string]Step{
		"all groups wrong":                   {AllBad: true},
		"all groups right":                   {AllGood: true},
		"no group differs":                   {Groups: 4, Skipped: 4},
		"truncation":                         {Truncated: 0.6},
		"time-outs":                          {Completions: 10, TimedOut: 6},
		"sandbox is the bottleneck":          {Seconds: 10, Waited: 4},
		"judge or sandbox is the bottleneck": {Seconds: 10, Waited: 4, ModelJudged: true},
		"reward errors":                      {Completions: 10, Unscored: 1},
		"checker errors":                     {Completions: 10, CheckerErrors: 1, AllBad: true, Groups: 4, Skipped: 4},
	} {
		var a Advisor
		var said []string
		for step := range patience {
			s.Number = step + 1
			said = append(said, rules(a.OnStep(s))...)
		}
		require.Contains(t, said, rule)
		for _, s := range said {
			require.Equal(t, rule, s)
		}
	}
}

func TestARuleDoesNotNag(t *testing.T) {
	var a Advisor
	spoke := 0
	for step := range 3 * silence {
		spoke += len(a.OnStep(Step{Number: step + 1, Truncated: 1}))
	}
	require.Equal(t, 3, spoke)
}

func TestFallingFormatAndJumpsAreSeen(t *testing.T) {
	var a Advisor
	require.Empty(t, a.OnStep(Step{Number: 1, Format: 0.9}))
	require.Equal(t, []string{"format falls"}, rules(a.OnStep(Step{Number: 2, Format: 0.5})))
	require.Equal(t, []string{"policy jumps"}, rules(a.OnStep(Step{Number: 3, Format: 0.9, Updated: true, KL: 0.2})))
}

// A learning rate that is far too high or too low is noticed within a few steps, by how far these move the policy; not in a short run, a
// warm-up, or a run that has nothing left to learn.
func TestRatesThatAreFarOffAreSeen(t *testing.T) {
	var a Advisor
	said := a.OnStep(Step{Number: 1, Updated: true, KL: 0.7, LearningRate: 0.06})
	require.Equal(t, []string{"policy leaps"}, rules(said))
	require.Equal(t, Now, said[0].Urgency)
	require.Contains(t, said[0].Try, "learning_rate=0.0039")
	said = a.OnStep(Step{Number: 2, Updated: true, KL: 2.9, LearningRate: 0.06})
	require.Empty(t, said, "it does not nag")

	// The divergence is 2.7e-3·r² for a rate r, and less from the third step on, as with the embedded model.
	still := func(r float64, change func(*Step)) (names []string) {
		var a Advisor
		for step := 1; step <= 6; step++ {
			s := Step{Number: step, Updated: true, KL: 2.7e-3 * r * r, LearningRate: r, Peak: r, Steps: 150, Correct: 0.3}
			if step > 2 {
				s.KL /= 8
			}
			change(&s)
			for _, a := range a.OnStep(s) {
				require.Equal(t, "learning_rate", a.Remedies[0].Setting)
				require.True(t, a.Remedies[0].Factor >= 2 && a.Remedies[0].Factor <= 16)
				names = append(names, a.Rule)
			}
		}
		return names
	}
	as := func(*Step) {}
	require.Equal(t, []string{"policy hardly moves"}, still(1.0/30, as))
	require.Empty(t, still(1, as))
	require.Empty(t, still(1.0/30, func(s *Step) { s.Peak *= 3 }), "it warms up")
	require.Empty(t, still(1.0/30, func(s *Step) { s.Correct = 0.95 }), "a policy that solves its problems need not move")
	require.Empty(t, still(1.0/2, func(s *Step) { s.Steps = 4 }), "a short trial run is not judged")
	require.NotEmpty(t, still(1.0/30, func(s *Step) { s.Steps = -1 }))
}

// A rate of 0, and one whose updates are lost in rounding, do not move the policy at all.
func TestARateThatMovesNothingIsSeen(t *testing.T) {
	for rate, try := range map[float64]string{0: "a learning_rate above 0", 1e-12: "learning_rate=1.6e-11"} {
		var a Advisor
		s := Step{Updated: true, LearningRate: rate, Peak: rate, Steps: 150}
		for s.Number = 1; s.Number < patience; s.Number++ {
			require.Empty(t, a.OnStep(s))
		}
		said := a.OnStep(s)
		require.Equal(t, []string{"policy hardly moves"}, rules(said))
		require.Equal(t, "3 updates in a row hardly changed the policy, and the last changed nothing", said[0].Finding)
		require.Equal(t, try, said[0].Try)
	}
	a := Advisor{BestFormat: 0.9}
	require.Contains(t, a.OnStep(Step{Number: 1, Format: 0.5, Updated: true})[0].Try, "a higher learning_rate")
	require.Contains(t, a.OnStep(Step{Number: 99, Format: 0.5, Updated: true, KL: 1e-3})[0].Try, "a lower learning_rate")
	a = Advisor{}
	for step := range 9 {
		require.Empty(t, a.OnStep(Step{Number: step + 1, Updated: true, Peak: 1, Steps: 150}), "no advice after the end of a schedule")
	}
}

// In a run without an end the schedule may be over: if it learns nothing, the advice says so.
func TestARunWithoutAnEndIsToldThatItsScheduleIsOver(t *testing.T) {
	var a Advisor
	require.Empty(t, a.OnStep(Step{Number: 1, Updated: true, KL: 1e-3, Peak: 1, LearningRate: 0.1, Steps: -1}))
	said := a.OnStep(Step{Number: 2, Updated: true, Peak: 1, Steps: -1})
	require.Equal(t, []string{"schedule is over"}, rules(said))
	require.Empty(t, said[0].Remedies, "no other setting is suggested")
	require.Empty(t, a.OnStep(Step{Number: 3, Updated: true, Peak: 1, Steps: -1}), "the advice is not repeated at the next step")
}

// The pace of a run is measured at its full learning rate, and not in the first steps of an optimizer.
func TestThePaceOfARun(t *testing.T) {
	s := Step{Updated: true, Updates: 10, KL: 0.5e-4, LearningRate: 1, Peak: 1, Steps: 200}
	require.InDelta(t, 2, s.Pace(), 1e-9, "200 steps of 0.01 nats")
	require.InDelta(t, 1.5, RateFactor(s.Pace()), 1e-9)
	s.LearningRate = 0.25
	require.InDelta(t, 8, s.Pace(), 1e-9, "it warms up")
	s.Updates = earlyUpdates
	require.Zero(t, s.Pace())
	s.Updates, s.Updated = 10, false
	require.Zero(t, s.Pace())
	require.Equal(t, mostUp, RateFactor(1e-9))
}

func TestAScoreThatFallsIsSeen(t *testing.T) {
	var a Advisor
	var said []string
	for step, correct := range []float64{0.3, 0.4, 0.5, 0.5, 0.5, 0.3, 0.2, 0.2, 0.1, 0, 0, 0} {
		said = append(said, rules(a.OnStep(Step{Number: step + 1, Correct: correct, RewardKind: Graded}))...)
	}
	require.Equal(t, []string{"score falls"}, said)
	a = Advisor{}
	for step := range 60 { // each step has other problems
		require.Empty(t, a.OnStep(Step{Number: step + 1, Correct: 0.3 + 0.25*float64(step%2)}))
	}
}

func TestTooManyErrorsAreFatal(t *testing.T) {
	var a Advisor
	require.False(t, a.OnStep(Step{Number: 1, Completions: 10, Unscored: 2})[0].Fatal)
	said := a.OnStep(Step{Number: 2, Completions: 10, Unscored: 3, FileErrors: 1, Why: "a ValueError"})[0]
	require.True(t, said.Fatal)
	require.Equal(t, "3 of 10 completions could not be scored; the first: a ValueError", said.Finding)
	require.Contains(t, said.Try, "fixing the reward file")
	said = a.OnStep(Step{Number: 3, Completions: 10, Unscored: 3, FileErrors: 1, Why: "judge: found no score in the answer"})[0]
	require.Contains(t, said.Try, "fixing the judge first")
}

// The remedy depends on what failed: grpo doctor only checks the sandbox.
func TestWhatMendsErrors(t *testing.T) {
	for why, want := range map[string]string{
		"":                                   "fixing that first: grpo doctor checks the sandbox",
		"sandbox failed 3 times in a row: x": "fixing that first: grpo doctor checks the sandbox",
		"x; this user may have 5 processes (ulimit -u)":      "allowing more processes, as that says",
		"judge: the 40 requests of judge_budget are used up": "a larger judge_budget, or 0 for no limit",
		"judge: found no score in the answer \"x\"": "fixing the judge first: grpo reward --judge-url tests it on " +
			"completions of your own",
		"the OpenEnv server http://x broke off: EOF":              "fixing that server first",
		"the MCP server \"x\" ended":                              "fixing that server first",
		"search: the MCP server \"x\" ended":                      "fixing that server first",
		"the environment took longer than the 1s for its answers": "a larger conversation_seconds, or a faster environment",
	} {
		var a Advisor
		require.Equal(t, want, a.OnStep(Step{Number: 1, Completions: 10, Unscored: 1, Why: why})[0].Try, why)
	}
}

func TestStepsThatLearnNothingAreAdvice(t *testing.T) {
	var a Advisor
	idle := Step{Groups: 4, Skipped: 4}
	for idle.Number = 1; idle.Number < patience; idle.Number++ {
		require.Empty(t, a.OnStep(idle))
	}
	said := a.OnStep(idle)
	require.Equal(t, []string{"no group differs"}, rules(said))
	require.Contains(t, said[0].Finding, "3 steps in a row")
	a, idle.AllBad = Advisor{}, true
	for idle.Number = 1; idle.Number <= patience; idle.Number++ {
		said = a.OnStep(idle)
	}
	require.Equal(t, []string{"all groups wrong"}, rules(said), "the reason is known")
}

func TestSwingsAreSeen(t *testing.T) {
	var a Advisor
	var said []string
	for step, kl := range []float64{0.01, 0.05, 0.01, 0.05, 0.01, 0.05} {
		said = append(said, rules(a.OnStep(Step{Number: step + 1, Updated: true, KL: kl}))...)
	}
	require.Equal(t, []string{"policy swings"}, said)

	a = Advisor{}
	// Falling, then too small to matter.
	for step, kl := range []float64{0.04, 0.009, 0.002, 0.0004, 0.002, 0.009, 0.001, 0.009, 0.001, 0.009} {
		require.Empty(t, a.OnStep(Step{Number: step + 1, Updated: true, KL: kl}))
	}
}

// If the reward rises while results on held-out problems do not, the reward is being hacked.
func TestRewardWithoutSkillIsSeen(t *testing.T) {
	for _, c := range []struct {
		rewards, greedy []float64
		problems        int
		alarm           bool
	}{
		{[]float64{0.2, 0.3, 0.5}, []float64{0.30, 0.30, 0.31}, 20, true},
		{[]float64{0.2, 0.3, 0.5}, []float64{0.30, 0.35, 0.45}, 20, false},   // held-out problems follow
		{[]float64{0.2, 0.22, 0.25}, []float64{0.30, 0.30, 0.30}, 20, false}, // nothing rises
		{[]float64{0.2, 0.5, 0.6}, []float64{0.30, 0.20, 0.10}, 20, true},
		{[]float64{0.2, 0.5, 0.6}, []float64{0.30, 0.20, 0.10}, 19, false}, // too few to say
	} {
		var a Advisor
		require.Empty(t, a.OnEvaluation(Evaluation{Problems: c.problems, Greedy: c.greedy[0]}), "no step was taken")
		var said []string
		for i, r := range c.rewards {
			for k := range 10 {
				a.OnStep(Step{Number: 10*i + k + 1, Reward: r})
			}
			said = append(said, rules(a.OnEvaluation(Evaluation{Step: 10 * (i + 1), Problems: c.problems, Greedy: c.greedy[i]}))...)
		}
		require.Equal(t, c.alarm, len(said) > 0, "%+v: %v", c, said)
	}
}

// More tests are advised only if not all are used.
func TestMoreTestsAreAdvisedWhereThereAreSome(t *testing.T) {
	for most, more := range map[int]bool{0: false, 4: true} {
		a := Advisor{Early: &milestone{}, Earned: 1, Steps: 1}
		said := a.OnEvaluation(Evaluation{Step: 10, Problems: 20, MaxTests: most})
		require.Equal(t, []string{"reward without skill"}, rules(said))
		require.Equal(t, more, strings.Contains(said[0].Try, "max_tests=0"))
	}
}

// The advisor's state survives a checkpoint, except what depends on the clock.
func TestTheAdvisorIsSaved(t *testing.T) {
	var a Advisor
	for step := range 5 {
		a.OnStep(Step{Number: step + 1, AllBad: true, Reward: 0.1, Seconds: 1, Waited: 1})
	}
	a.OnEvaluation(Evaluation{Step: 5, Problems: 20, Greedy: 0.5})
	text, err := json.Marshal(a)
	require.NoError(t, err)
	var b Advisor
	require.NoError(t, json.Unmarshal(text, &b))
	require.NotZero(t, a.slow)
	require.True(t, a.saidSlow)
	a.slow, a.saidSlow = 0, false
	require.Equal(t, a, b)
}

// "All groups wrong" is reported if nothing is learned and nothing else explains it, with settings that the run can use.
func TestWhatIsSaidOfWrongAnswers(t *testing.T) {
	idle := Step{AllBad: true, Groups: 4, Skipped: 4, Completions: 16}
	for name, c := range map[string]struct {
		change func(*Step)
		rule   string // the last step's; "": none
		credit bool
	}{
		"tests":          {func(*Step) {}, "all groups wrong", true},
		"reward file":    {func(s *Step) { s.RewardKind = Graded }, "all groups wrong", false},
		"own grader":     {func(s *Step) { s.RewardKind = OwnReward }, "no group differs", false},
		"groups teach":   {func(s *Step) { s.Skipped = 1 }, "", false},
		"checkers fail":  {func(s *Step) { s.CheckerErrors = 1 }, "", false},
		"nothing is new": {func(s *Step) { s.AllBad = false }, "no group differs", true},
	} {
		var a Advisor
		s := idle
		c.change(&s)
		var said []Advice
		for s.Number = 1; s.Number <= patience; s.Number++ {
			said = a.OnStep(s)
		}
		if c.rule == "" {
			require.Empty(t, said, name)
			continue
		}
		require.Equal(t, []string{c.rule}, rules(said), name)
		require.Equal(t, c.credit, strings.Contains(said[0].Try, "reward=fraction"), name)
	}
}

// A program's own grader that rewards, but calls nothing correct, is reported once; one that ever did is not.
func TestAnOwnGraderThatCallsNothingCorrect(t *testing.T) {
	for _, correct := range []float64{0, 0.1} {
		var a Advisor
		spoke := 0
		for step := range 3 * silence {
			s := Step{Number: step + 1, RewardKind: OwnReward, Reward: 1.5, Groups: 4}
			if step == 0 {
				s.Correct = correct
			}
			spoke += len(a.OnStep(s))
		}
		require.Equal(t, correct == 0, spoke == 1)
		require.LessOrEqual(t, spoke, 1)
	}
	var a Advisor
	for step := range 2 * silence {
		require.Empty(t, a.OnStep(Step{Number: step + 1, Reward: 1.5, Groups: 4}), "rewards on another scale get no advice")
	}
}

// A jump halves the rate; after one of the first updates the new rate depends on how far it went, and the policy before it is the better
// one.
func TestAJumpOfTheFirstUpdates(t *testing.T) {
	for updates, factor := range map[int]float64{3: rateForGoalKL(0.2), 30: leastDown} {
		var a Advisor
		said := a.OnStep(Step{Number: updates, Updates: updates, Format: 0.9, Updated: true, KL: 0.2, LearningRate: 1e-3})
		require.Equal(t, []string{"policy jumps"}, rules(said))
		require.NotContains(t, said[0].Finding, "before", "the first step is not compared with one before")
		require.Equal(t, []Remedy{{Setting: "learning_rate", Factor: factor}}, said[0].Remedies)
		require.Equal(t, updates == 3, said[0].Urgency == Now)
		require.Equal(t, updates == 3, strings.Contains(said[0].Try, "go back"), said[0].Try)
	}
}
