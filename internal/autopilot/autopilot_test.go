package autopilot

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data"
	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// scored is an evaluation of a fixed number of problems, the first `right` of which are solved.
func scored(step, right int) stats.Judged {
	j := stats.Judged{Step: step}
	for i := range 60 {
		j.Problems = append(j.Problems, fmt.Sprint("p", i))
		if j.Correct = append(j.Correct, 0); i < right {
			j.Correct[i] = 1
		}
	}
	return j
}

// simulation is a simulated run: a score that depends on the step and the settings, and checkpoints.
type simulation struct {
	pilot    *Pilot
	saved    map[int]advice.Advisor
	advisor  advice.Advisor
	step     int
	kl       func(rate float64) float64
	right    func(step int, p *Pilot) int
	evidence func(s *advice.Step)
	did      []Decision
}

func newSimulation() *simulation {
	own := Values{Rate: 0.01, Temperature: 1, Format: 0.1, Completions: 8, Overlong: 0}
	return &simulation{pilot: New(own), saved: map[int]advice.Advisor{}, right: func(int, *Pilot) int { return 30 },
		kl: func(float64) float64 { return 1e-3 }}
}

// run takes steps as the trainer does; the pilot is saved and restored before each.
func (w *simulation) run(t *testing.T, steps int) {
	t.Helper()
	for taken := 0; ; taken++ {
		require.Less(t, taken, 20*steps, "it does not come to an end: %v", w.did)
		text, err := json.Marshal(w.pilot)
		require.NoError(t, err)
		w.pilot = nil
		require.NoError(t, json.Unmarshal(text, &w.pilot))
		if want := w.pilot.NextAction(w.step, w.step == steps); want != NoAction {
			var found stats.Judged
			if want == Measure {
				found = scored(w.step, w.right(w.step, w.pilot))
			}
			deeds, back := w.pilot.Decide(w.step, found)
			w.did = append(w.did, deeds...)
			if back >= 0 {
				w.step, w.advisor = back, copied(t, w.saved[back])
			} else {
				w.saved[w.step] = copied(t, w.advisor)
			}
		}
		if w.step == steps {
			return
		}
		w.step++
		rate := w.pilot.Value(Rate)
		s := advice.Step{Number: w.step, Reward: 0.3, Correct: 0.3, Groups: 8, Updated: true, Updates: w.step, KL: w.kl(rate),
			LearningRate: rate, Peak: rate, Format: 1, Completions: 64, Steps: steps}
		if w.evidence != nil {
			w.evidence(&s)
		}
		w.pilot.Observe(s, w.advisor.OnStep(s))
	}
}

func copied(t *testing.T, a advice.Advisor) (b advice.Advisor) {
	t.Helper()
	text, err := json.Marshal(a)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &b))
	return b
}

func TestAQuietRunIsLeftAlone(t *testing.T) {
	w := newSimulation()
	w.run(t, 100)
	require.Empty(t, w.did)
	require.Empty(t, w.pilot.Overrides())
	require.Contains(t, w.pilot.Summary(), "found nothing")
	require.Equal(t, 90, w.pilot.Anchor, "it is measured now and then; the last step is for the run's own evaluation")
}

// The divergence grows with the square of the rate, and is about 1e-3 at 0.01.
func klOfRate(rate float64) float64 { return min(rate*rate*10, 3) }

// A rate far from one that moves the policy well is corrected within a few steps: a hundred steps at 0.0067 give 3 nats.
func TestARateIsFound(t *testing.T) {
	for _, rate := range []float64{0.3, 10, 0.01 / 30, 0.01 / 1000} {
		w := newSimulation()
		w.pilot.Own[Rate], w.kl = rate, klOfRate
		w.right = func(_ int, p *Pilot) int {
			if p.Value(Rate) > 0.1 {
				return 0
			}
			return 30
		}
		w.run(t, 100)
		got := w.pilot.Value(Rate)
		require.True(t, got > 0.0067/tooSlow && got < 0.01*4, "%g became %g: %v", rate, got, w.did)
		if rate < 0.01 {
			require.Less(t, got, 0.0067*tooSlow, "the rate was raised farther than needed")
		}
		require.Less(t, w.did[len(w.did)-1].Step, 40)
	}
}

// The search for a pace ends, even if the pace does not follow the rate; a rate at which the policy jumped is not returned to.
func TestAPaceThatDoesNotFollowTheRate(t *testing.T) {
	w := newSimulation()
	w.kl = func(float64) float64 { return 1e-6 }
	w.run(t, 200)
	paced := 0
	for _, d := range w.did {
		if d.Rule == aim && d.Did == Tried {
			paced++
			require.Less(t, d.Step, 3+aimSteps+restSteps)
		}
	}
	require.Positive(t, paced)
}

// The first steps of an optimizer move the policy farther than later ones, and do not prove a rate sufficient.
func TestFirstStepsTellNoPace(t *testing.T) {
	w := newSimulation()
	w.pilot.Own[Rate] = 0.01 / 100
	w.kl = func(rate float64) float64 {
		kl := klOfRate(rate)
		if w.step <= 5 {
			kl *= 10
		}
		return kl
	}
	w.run(t, 100)
	got := w.pilot.Value(Rate)
	require.True(t, got > 0.0067/tooSlow && got < 0.0067*tooSlow, "it became %g: %v", got, w.did)
}

// A rate at which the policy jumped is an upper bound, however little a smaller one moves it.
func TestARateThatJumpedIsARoof(t *testing.T) {
	w := newSimulation()
	w.kl = func(rate float64) float64 {
		if w.step <= 8 {
			return 1e-3
		}
		if rate >= 0.01 {
			return 0.1
		}
		return 1e-8
	}
	w.run(t, 60)
	require.Equal(t, "policy jumps", w.did[0].Rule)
	require.Equal(t, []float64{0.01, 0.005}, []float64{w.did[0].Before, w.did[0].After}, "the rate is halved, however far the step went")
	require.Greater(t, len(w.did), 3)
	for _, d := range w.did {
		require.Less(t, d.After, 0.01, "%v", d)
	}
}

// If a lowered rate still makes the policy leap, it is lowered further, and not raised again.
func TestALoweredRateThatLeapsIsLoweredFurther(t *testing.T) {
	w := newSimulation()
	w.pilot.Own[Rate] = 0.1
	w.kl = func(rate float64) float64 {
		switch {
		case w.step <= 20:
			return 1e-3
		case rate >= 0.1:
			return 0.15 // a jump; half of the rate still leaps
		case rate >= 0.01:
			return 0.9
		}
		return 1e-3
	}
	w.run(t, 40)
	require.Equal(t, []string{jumps, leaps}, []string{w.did[0].Rule, w.did[1].Rule})
	require.Equal(t, []float64{0.1, 0.05}, []float64{w.did[0].Before, w.did[0].After})
	require.Equal(t, RolledBack, w.did[1].Did)
	for before, d := range w.did[1:] {
		require.Less(t, d.After, 0.1, "%d: %v", before+1, d)
	}
	require.InDelta(t, 0.05/16, w.did[1].After, 1e-5)
}

// A jump in the first step is undone, and the new rate depends on how far it went, since no other step proves the rate safe.
func TestAFirstStepThatJumps(t *testing.T) {
	w := newSimulation()
	w.kl = func(rate float64) float64 {
		if rate >= 0.01 {
			return 0.15
		}
		return 1e-3
	}
	w.run(t, 20)
	require.Equal(t, []any{jumps, RolledBack, 0}, []any{w.did[0].Rule, w.did[0].Did, *w.did[0].To})
	require.InDelta(t, 0.01*math.Sqrt(0.003/0.15), w.did[0].After, 1e-5)
}

// One leap among many steps halves the rate; a second one soon after lowers it by how far it went.
func TestALeapOfARateThatWasBorne(t *testing.T) {
	for _, again := range []bool{false, true} {
		w := newSimulation()
		leapt := 0
		w.kl = func(float64) float64 {
			if w.step == 31 && (leapt == 0 || again && leapt == 1) {
				leapt++
				return 0.9
			}
			return 1e-3
		}
		w.run(t, 60)
		require.Equal(t, RolledBack, w.did[0].Did)
		require.Equal(t, []float64{0.01, 0.005}, []float64{w.did[0].Before, w.did[0].After})
		if again {
			require.Equal(t, leaps, w.did[1].Rule)
			require.Less(t, w.did[1].After, 0.001)
		} else {
			require.Equal(t, Kept, w.did[1].Did)
		}
	}
}

// If training rewards fall, which are of other problems in each step, an evaluation is made; nothing is changed unless it falls, too.
func TestAFallOfStepsAloneIsNone(t *testing.T) {
	for _, fell := range []bool{false, true} {
		w := newSimulation()
		w.evidence = func(s *advice.Step) {
			if s.Number > 12 {
				s.Correct, s.Reward = 0.1, 0.1
			}
		}
		w.right = func(step int, _ *Pilot) int {
			if fell && step > 12 {
				return 5
			}
			return 30
		}
		w.run(t, 18)
		if fell {
			require.NotEmpty(t, w.did, "it was measured out of turn: the next time would be step 20")
			require.Equal(t, "held-out score falls", w.did[0].Rule)
		} else {
			require.Empty(t, w.did)
			require.Greater(t, w.pilot.Anchor, 12)
		}
	}
}

// A change after which the score falls is undone, and not tried again for a while.
func TestAChangeThatDoesHarmIsUndone(t *testing.T) {
	w := newSimulation()
	w.evidence = func(s *advice.Step) { s.Skipped = 8 }
	w.right = func(step int, p *Pilot) int {
		if p.Value(Temperature) > 1 {
			return 10
		}
		return 30
	}
	w.run(t, 30)
	require.Equal(t, []string{Tried, RolledBack}, []string{w.did[0].Did, w.did[1].Did})
	require.Equal(t, Temperature, w.did[0].Setting)
	require.Equal(t, w.did[0].Step, *w.did[1].To)
	require.Equal(t, []float64{1.2, 1}, []float64{w.did[1].Before, w.did[1].After})
	require.InDelta(t, -1.0/3, *w.did[1].Change, 1e-9)
	for _, d := range w.did[2:] {
		require.NotEqual(t, Temperature, d.Setting, "%v", d)
	}
	require.Equal(t, Completions, w.did[2].Setting, "after one remedy the next is tried")
	require.Equal(t, Values{Completions: 16}, w.pilot.Overrides(), "completions are at most doubled")
}

// If the score falls without a recent change, the rate is halved; if that does not help, the run continues in the end.
func TestAFallWithoutACauseIsNoEndlessLoop(t *testing.T) {
	w := newSimulation()
	w.right = func(step int, _ *Pilot) int { return max(30-3*step, 0) }
	w.run(t, 30)
	require.Equal(t, RolledBack, w.did[0].Did)
	require.Equal(t, []float64{0.01, 0.005}, []float64{w.did[0].Before, w.did[0].After})
	last := w.did[mostReturns]
	require.Equal(t, Continued, last.Did)
	require.Contains(t, last.String(), "changes nothing")
	require.Contains(t, last.Why, "did not help 6 times")
}

// A non-finite policy is not evaluated; without a checkpoint to go back to, nothing can be done.
func TestALostPolicy(t *testing.T) {
	w := newSimulation()
	require.False(t, w.pilot.HandleBroken(errors.New("not finite")))
	w.run(t, 3)
	require.True(t, w.pilot.HandleBroken(errors.New("not finite")))
	require.Equal(t, RollBack, w.pilot.NextAction(3, false))
	did, back := w.pilot.Decide(3, stats.Judged{})
	require.Equal(t, 0, back)
	require.Equal(t, "autopilot, step 3: goes back to step 0, and continues with learning_rate=0.000625, which was 0.01; "+
		"policy is lost: not finite",
		did[0].String())
}

func TestWhatIsMeasuredOn(t *testing.T) {
	cfg := configs.Defaults()
	problems := make([]data.Problem, 300)
	left, checks, err := SplitProblems(&cfg, problems[:50], problems)
	require.NoError(t, err)
	require.Empty(t, checks)
	require.Len(t, left, 300)
	cfg.Autopilot = true
	_, checks, err = SplitProblems(&cfg, problems[:50], problems)
	require.NoError(t, err)
	require.Len(t, checks, 50)
	left, checks, err = SplitProblems(&cfg, nil, problems)
	require.NoError(t, err)
	require.Len(t, left, 270)
	require.Len(t, checks, 30)
	_, _, err = SplitProblems(&cfg, nil, problems[:70])
	require.ErrorContains(t, err, "type test_data=FILE, or autopilot=false")
	require.NotContains(t, Tunable(&cfg, false), Format, "with a grader of the program, format_weight is not the pilot's")
}

// The summary counts one change as one.
func TestTheSummaryCounts(t *testing.T) {
	p := &Pilot{}
	p.Last = Counts{Tried: 1, Undone: 1}
	require.Equal(t, "autopilot: 1 change tried, 0 kept, went back 1 time", p.Summary())
	p.Last = Counts{Tried: 2, Kept: 2}
	require.Equal(t, "autopilot: 2 changes tried, 2 kept, went back 0 times", p.Summary())
}
