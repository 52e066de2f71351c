package autopilot

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// Settings given by the user are in force: trials of other values end, and a rate that was too large is forgotten with the rate at which
// that was found. What the user did not change stays as the pilot left it.
func TestOwnSettingsComeBeforeWhatWasTried(t *testing.T) {
	begun := func() *Pilot {
		p := New(Values{Rate: 0.01, Temperature: 1})
		p.Now = Values{Rate: 0.005, Temperature: 1.2}
		p.Trial = &Trial{Setting: Temperature, Before: 1, After: 1.2}
		p.Roof, p.Aims = 0.01, 30
		return p
	}
	p := begun()
	p.Resume(Values{Rate: 0.01, Temperature: 1})
	require.Equal(t, begun(), p, "unchanged settings change nothing")

	p = begun()
	p.Resume(Values{Rate: 0.01, Temperature: 0.8})
	require.Equal(t, Values{Rate: 0.005}, p.Overrides())
	require.InDelta(t, 0.8, p.Value(Temperature), 0)
	require.Nil(t, p.Trial, "what it tried is not in force any more")
	require.InDelta(t, 0.01, p.Roof, 0)

	p = begun()
	p.Resume(Values{Rate: 0.02, Temperature: 1})
	require.Equal(t, Values{Temperature: 1.2}, p.Overrides())
	require.NotNil(t, p.Trial)
	require.Zero(t, p.Roof)
	require.Zero(t, p.Aims)

	p = begun()
	p.Resume(Values{Rate: 0.01}) // a temperature, which may not be changed now
	require.Equal(t, Values{Rate: 0.005}, p.Overrides())
	require.Nil(t, p.Trial)
}

// Completions sampled ahead can be used if they were drawn with the settings in force.
func TestWhatWasSampledAheadIsOfUse(t *testing.T) {
	for _, c := range []struct {
		fresh, engaged, tried, passes bool
	}{
		{false, true, false, false}, {true, true, false, true}, {false, true, true, false}, {false, false, true, true},
		{false, false, false, false},
	} {
		p := New(Values{Rate: 0.01})
		if p.Fresh = c.fresh; c.tried {
			p.Now[Rate] = 0.005
		}
		require.Equal(t, c.passes, p.DiscardsAhead(c.engaged), "%+v", c)
	}
	require.False(t, (*Pilot)(nil).DiscardsAhead(false))
}

// Of several findings the most urgent counts, and of those the first.
func TestTheFirstOfTheMostUrgentFindingsCounts(t *testing.T) {
	says := func(rule string, u advice.Urgency) advice.Advice {
		return advice.Advice{Rule: rule, Urgency: u, Remedies: []advice.Remedy{{Setting: Rate, Factor: 2}}}
	}
	p := New(Values{Rate: 0.01})
	p.Observe(advice.Step{Number: 1}, []advice.Advice{says("a", 0), says("b", advice.Soon), says("c", advice.Soon)})
	p.Observe(advice.Step{Number: 2}, []advice.Advice{says("d", advice.Soon), says("e", 0)})
	require.Equal(t, "b", p.Alarm.Rule)
	p.Observe(advice.Step{Number: 3}, []advice.Advice{says("f", advice.Now)})
	require.Equal(t, "f", p.Alarm.Rule)
}

// The best of many evaluations was partly luck: less than a tenth below it the run continues, however certain the difference.
func TestALittleBelowTheBestIsNoFall(t *testing.T) {
	for below, falls := range map[int]bool{5: false, 7: true} {
		w := newSimulation()
		w.right = func(step int, _ *Pilot) int {
			if step > 5 {
				return 30 - below
			}
			return 30
		}
		w.run(t, 15)
		require.Equal(t, falls, len(w.did) > 0, "%d below: %v", below, w.did)
	}
}

// After going back has not helped, the present score is the new reference.
func TestWhatDidNotHelpIsNotHeldAgainstTheRun(t *testing.T) {
	p := New(Values{Rate: 0.01})
	p.Decide(0, scored(0, 30))
	for range mostReturns {
		_, back := p.Decide(10, scored(10, 5))
		require.Equal(t, 0, back)
	}
	deeds, back := p.Decide(10, scored(10, 5))
	require.Equal(t, -1, back)
	require.Equal(t, Continued, deeds[0].Did)
	deeds, back = p.Decide(20, scored(20, 5))
	require.Equal(t, -1, back, "%v", deeds)
}

// A first step that leaps shows how far the rate is off, since there is no other step.
func TestAFirstStepThatLeaps(t *testing.T) {
	for at, after := range map[int]float64{1: 0.01 / 10, calmSteps: 0.01 / 10, calmSteps + 1: 0.01 / 2} {
		p := New(Values{Rate: 0.01})
		p.Decide(0, scored(0, 30))
		p.Alarm = &Alarm{Rule: leaps, Urgency: advice.Now, Remedies: []advice.Remedy{{Setting: Rate, Factor: 0.1}}}
		deeds, back := p.Decide(at, stats.Judged{})
		require.Equal(t, 0, back)
		require.InDelta(t, after, deeds[0].After, 1e-9, "step %d", at)
	}
}

// An increase that broke the policy is tried again at once with a smaller value, below it; another remedy rests.
func TestAStepUpThatWasTooFar(t *testing.T) {
	up := &Alarm{Rule: still, Remedies: []advice.Remedy{{Setting: Rate, Factor: 4}}}
	p := New(Values{Rate: 0.01, Temperature: 1})
	p.Alarm = up
	deeds, _ := p.Decide(0, scored(0, 30))
	require.InDelta(t, 0.04, deeds[0].After, 1e-9)
	require.True(t, p.HandleBroken(errors.New("not finite")))
	deeds, back := p.Decide(2, stats.Judged{})
	require.Equal(t, 0, back)
	require.InDelta(t, 0.01, deeds[0].After, 1e-9, "the setting returns to its value before the trial")
	p.Alarm = up
	deeds, _ = p.Decide(1, scored(1, 30))
	require.Len(t, deeds, 1, "the remedy may be tried again at once")
	require.InDelta(t, 0.02, deeds[0].After, 1e-9, "half of the way to what was too far")

	p = New(Values{Rate: 0.01, Temperature: 1})
	warmer := &Alarm{Rule: "x", Remedies: []advice.Remedy{{Setting: Temperature, Factor: 1.2}}}
	p.Alarm = warmer
	p.Decide(0, scored(0, 30))
	_, back = p.Decide(5, scored(5, 5))
	require.Equal(t, 0, back)
	p.Alarm = warmer
	deeds, _ = p.Decide(restSteps-1, scored(restSteps-1, 30))
	require.Empty(t, deeds)
	p.Alarm = warmer
	deeds, _ = p.Decide(restSteps, scored(restSteps, 30))
	require.Len(t, deeds, 1)
}

// The first steps of an optimizer say nothing about an increased rate, so the trial is decided as many steps later.
func TestATrialWaitsForStepsThatTell(t *testing.T) {
	for early, due := range map[bool]int{true: 6, false: 5} {
		p := New(Values{Rate: 0.01})
		p.Trial = &Trial{Rule: still, Setting: Rate, Before: 0.01, After: 0.04, Due: 5}
		p.Observe(advice.Step{Number: 1, Updated: true, Updates: map[bool]int{true: 1, false: 100}[early], KL: 1e-9, LearningRate: 0.04}, nil)
		require.Equal(t, due, p.Trial.Due)
		p.Trial.After, p.Trial.Due = 0.005, 5 // a smaller rate is no increase
		p.Observe(advice.Step{Number: 2, Updates: 2, LearningRate: 0.005}, nil)
		require.Equal(t, 5, p.Trial.Due)
	}
}
