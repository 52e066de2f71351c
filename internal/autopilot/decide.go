package autopilot

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

const (
	farDown  = 1.0 / 16 // factor for a rate that broke the policy
	rateCut  = 1.0 / 2  // factor for a rate under which the score fell
	farFall  = 0.1      // compared with the best kept score, which is partly luck
	leastUse = 1.1      // a change by a smaller factor is not made

	aim     = "pace" // the rule by which a changed learning rate is adjusted further
	tooSlow = 1.3    // a pace that is too low by this factor is worth a trial
)

// The rules about the pace of the policy.
const (
	leaps = "policy leaps"
	jumps = "policy jumps"
	lost  = "policy is lost"
	still = "policy hardly moves"
)

// falls is the rule about rewards. As each step has other problems, if the run is measured it only triggers a measurement.
const falls = "score falls"

// bounds limit a setting, as factors of the run's own value.
var bounds = map[string][2]float64{Rate: {1e-6, 1e6}, Temperature: {0.7, 1.5}, Format: {1, 8}, Completions: {1, 2}, Overlong: {1, 8}}

// Decide decides after a step, given a measurement; found is ignored if the policy is broken. back is the step to roll
// back to, or −1 if the run continues: then a checkpoint is due, for later rollbacks.
func (p *Pilot) Decide(step int, found stats.Judged) (deeds []Decision, back int) {
	alarm := p.Alarm
	p.Alarm, p.Done, p.Fresh = nil, step+1, false
	if alarm != nil && alarm.Urgency == advice.Now && p.Anchor >= 0 {
		if t := p.Trial; t != nil && t.Setting == Rate && t.After < t.Before {
			t.Retreat = true // the smaller rate before it is no alternative
		}
		return p.goBack(step, Decision{Rule: alarm.Rule, Why: alarm.Finding}, p.rateFactor(step, alarm), found)
	}
	if p.Anchor >= 0 {
		if fall := p.significantFall(found); fall != nil {
			why := Decision{Rule: "held-out score falls", Why: "it changed by " + fall.String()}
			why.measured(found, fall)
			return p.goBack(step, why, rateCut, found)
		}
	}
	if t := p.Trial; t != nil {
		d := Decision{Step: step, Did: Kept, Rule: t.Rule, Setting: t.Setting, Before: t.Before, After: t.After, Why: "the score did not fall"}
		d.measured(found, stats.Compare(p.Known, found))
		deeds, p.Trial = append(deeds, d), nil
		p.Last.Kept++
	}
	if alarm != nil && alarm.Rule == falls {
		alarm = nil
	}
	if alarm == nil {
		alarm = p.adjustRate(step)
	}
	p.settle(step, found)
	if alarm != nil {
		deeds = append(deeds, p.startTrial(step, alarm)...)
	}
	return deeds, -1
}

// rateFactor is the factor for a learning rate at which the policy moved too far or broke. After the first steps, a rate that is not on
// trial has proved itself, and the length of one step says little: it is halved.
func (p *Pilot) rateFactor(step int, a *Alarm) float64 {
	if p.Trial == nil && step > calmSteps && a.Rule == leaps {
		return rateCut
	}
	return a.Remedies[0].Factor
}

// settle makes a step the anchor.
func (p *Pilot) settle(step int, found stats.Judged) {
	if p.Best.Problems == nil || stats.Mean(found.Correct) >= stats.Mean(p.Best.Correct) {
		p.Best = found
	}
	p.Anchor, p.Known, p.Returns, p.Due = step, found, 0, step+calmSteps
}

// significantFall is the change of the score if it fell significantly, else nil. A trial is compared with the measurement before it,
// and the whole with the best: as the best of many is partly luck, that takes more.
func (p *Pilot) significantFall(found stats.Judged) *stats.Change {
	if c := stats.Compare(p.Known, found); p.Trial != nil && c != nil && c.CI[1] < 0 {
		return c
	}
	if c := stats.Compare(p.Best, found); c != nil && c.CI[1] < 0 && c.Mean <= -farFall {
		return c
	}
	return nil
}

// goBack undoes a trial. If there is no trial to blame, or the trial was a smaller learning rate, it takes a smaller one.
func (p *Pilot) goBack(step int, d Decision, factor float64, found stats.Judged) ([]Decision, int) {
	d.Step, d.Did = step, RolledBack
	if p.Returns++; p.Returns > mostReturns {
		d.Did, d.Why = Continued, d.Why+fmt.Sprintf("; going back to step %d did not help %d times", p.Anchor, mostReturns)
		p.Trial, p.Lost = nil, true
		p.Best = found
		p.settle(step, found)
		return []Decision{d}, -1
	}
	t, rate := p.Trial, p.Value(Rate)
	p.Trial, p.Fresh, p.Done, p.Due = nil, true, p.Anchor+1, p.Anchor+calmSteps
	p.Last.Undone++
	if t != nil && !t.Retreat {
		d.Setting, d.Before, d.After = t.Setting, t.After, t.Before
		p.set(t.Setting, t.Before)
		if t.Setting == Rate {
			p.Aims = 0
		}
		p.Rests[t.Rule+"/"+t.Setting] = p.Anchor + restSteps
		if t.Setting == Rate && t.After > t.Before {
			p.Roof = t.After
			delete(p.Rests, t.Rule+"/"+t.Setting) // a smaller increase may be tried
		}
	} else {
		d.Setting, d.Before, d.After = Rate, rate, roundDigits(rate*factor)
		p.set(Rate, d.After)
		p.Roof = rate
		p.watchPace(d.Rule, p.Anchor)
		p.Trial = &Trial{Rule: d.Rule, Setting: Rate, Before: rate, After: d.After, Due: p.Anchor + trialSteps, Retreat: true}
		p.Last.Tried++
	}
	d.To = &p.Anchor
	return []Decision{d.clone()}, p.Anchor
}

// startTrial starts a trial of the first remedy that applies.
func (p *Pilot) startTrial(step int, a *Alarm) []Decision {
	for _, r := range a.Remedies {
		before, known := p.Value(r.Setting), true
		if _, known = p.Own[r.Setting]; !known || step < p.Rests[a.Rule+"/"+r.Setting] {
			continue
		}
		after := p.value(r, before)
		if ratio := after / before; before > 0 && ratio < leastUse && ratio > 1/leastUse || after <= 0 {
			continue
		}
		if r.Setting == Rate {
			p.watchPace(a.Rule, step)
			if after < before {
				p.Roof = before
			}
		}
		p.set(r.Setting, after)
		p.Fresh = true
		p.Trial = &Trial{Rule: a.Rule, Setting: r.Setting, Before: before, After: after, Due: step + trialSteps}
		p.Last.Tried++
		return []Decision{{Step: step, Did: Tried, Rule: a.Rule, Why: a.Finding, Setting: r.Setting, Before: before, After: after}}
	}
	return nil
}

// adjustRate is the remaining adjustment of a learning rate that was changed, by the pace of the steps with it. It applies only to
// a rate with a finding, and not for long. A policy that moves faster than necessary is left to the advice, as early steps say
// little about what it tolerates.
func (p *Pilot) adjustRate(step int) *Alarm {
	if step >= p.Aims || len(p.Paces) < trialSteps {
		return nil
	}
	paces := slices.Sorted(slices.Values(p.Paces))
	pace := paces[len(paces)/2]
	factor := advice.RateFactor(pace)
	if factor < tooSlow {
		return nil
	}
	finding := fmt.Sprintf("at the pace of the last %d steps, all steps of the run change it by %.2g nats a token", len(paces), pace)
	return &Alarm{Rule: aim, Finding: finding, Remedies: []advice.Remedy{{Setting: Rate, Factor: factor}}}
}

// watchPace starts to watch the pace of a learning rate that is changed because of its pace.
func (p *Pilot) watchPace(rule string, step int) {
	p.Paces = nil
	switch rule {
	case aim:
	case leaps, jumps, lost, still:
		p.Aims = step + aimSteps
	default:
		p.Aims = 0
	}
}

// value applies a remedy to a value, within bounds.
func (p *Pilot) value(r advice.Remedy, before float64) float64 {
	after := before * r.Factor
	if before == 0 {
		after = r.Begin
	}
	if own := p.Own[r.Setting]; own > 0 {
		b := bounds[r.Setting]
		after = min(max(after, own*b[0]), own*b[1])
	} else if after > r.Begin*bounds[r.Setting][1] {
		after = before
	}
	switch {
	case r.Setting == Rate && p.Roof > 0 && after >= p.Roof && before < p.Roof:
		after = math.Sqrt(before * p.Roof) // half of the way, geometrically
	case r.Setting == Completions:
		return math.Round(after)
	}
	return roundDigits(after)
}

// roundDigits rounds to three digits, for reading and typing.
func roundDigits(x float64) float64 {
	if x <= 0 {
		return x
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(x)))
	return math.Round(x*scale) / scale
}
