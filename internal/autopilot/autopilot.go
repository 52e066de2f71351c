// Package autopilot acts on advice: it tries another value of one setting at a time, keeps it unless the score falls that is
// measured then, and has the run go back to where it was before if it does. It decides by what it is shown of steps and
// measurements alone, so that a run that is done again decides the same. It trains and measures nothing itself.
package autopilot

import (
	"maps"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// File has a line for each Deed of a run. It is not cut where the run goes back.
const File = "autopilot.jsonl"

// The settings that it changes: they take effect between two steps, and need no memory that was not planned.
const (
	Rate        = "learning_rate"
	Temperature = "temperature"
	Format      = "format_coef"
	Completions = "completions_per_prompt"
	Overlong    = "overlong_penalty"
)

// Values are settings by name.
type Values map[string]float64

// Pilot is what is known between two steps; checkpoints save it.
type Pilot struct {
	Own Values `json:"own"` // settings as the run says them; those that are missing are not to be changed
	Now Values `json:"now"` // those that are in force in place of them

	Anchor int          `json:"anchor"` // the step that the run goes back to; −1: none yet
	Known  stats.Judged `json:"known"`  // what was measured there
	Best   stats.Judged `json:"best"`   // the best that was kept

	Trial *Trial  `json:"trial,omitempty"`
	Alarm *Alarm  `json:"alarm,omitempty"`
	Due   int     `json:"due"`  // the step at which to measure, if nothing comes before
	Done  int     `json:"done"` // the first step that nothing was decided at
	Roof  float64 `json:"roof"` // a learning rate that the policy did not bear; 0: none

	Aims  int       `json:"aims,omitempty"`  // the step until which the learning rate is held to a pace
	Paces []float64 `json:"paces,omitempty"` // of the steps with this rate until then, in nats a run

	Returns int            `json:"returns"`        // to the anchor, in a row
	Rests   map[string]int `json:"rests"`          // until which step a remedy is not tried again
	Fresh   bool           `json:"fresh"`          // what was sampled ahead before is not to be used
	Last    Counts         `json:"counts"`         // of the deeds so far
	Lost    bool           `json:"lost,omitempty"` // the run went on without a remedy, once
}

// Trial is a change that is not decided on yet.
type Trial struct {
	Rule    string  `json:"rule"`
	Setting string  `json:"setting"`
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
	Due     int     `json:"due"`               // the step to decide at
	Retreat bool    `json:"retreat,omitempty"` // what was before is no choice: the run went back from that, or a larger rate
}

// Alarm is a finding that nothing was done about yet.
type Alarm struct {
	Rule     string          `json:"rule"`
	Finding  string          `json:"finding"`
	Remedies []advice.Remedy `json:"remedies"`
	Urgency  advice.Urgency  `json:"urgency"`
}

// Counts are of deeds.
type Counts struct {
	Tried  int `json:"tried"`
	Kept   int `json:"kept"`
	Undone int `json:"undone"` // going back among them
}

// How long things take, in steps.
const (
	trialSteps   = 5  // of a trial
	aimSteps     = 30 // after a change of the learning rate that it is held to a pace
	calmSteps    = 10 // between measurements where nothing is tried
	restSteps    = 40 // that a remedy which did not help is not tried again
	mostReturns  = 6  // to one anchor
	mostProblems = 128
)

// Problems is how many problems to measure on, where a step samples so many completions: what is measured every five steps
// costs at most a fifth of what they sample.
func Problems(there, completions int) int { return min(there, completions, mostProblems) }

// New begins with the settings of a run.
func New(own Values) *Pilot {
	return &Pilot{Own: own, Now: Values{}, Anchor: -1, Rests: map[string]int{}}
}

// GoesOn has a run go on with settings of its own that may be others than before: what somebody changed since is in force,
// and nothing that was tried in its place.
func (p *Pilot) GoesOn(own Values) {
	for key := range maps.Clone(p.Now) {
		if value, there := own[key]; !there || value != p.Own[key] {
			delete(p.Now, key)
		}
	}
	if t := p.Trial; t != nil && p.Value(t.Setting) != t.After {
		p.Trial = nil
	}
	if own[Rate] != p.Own[Rate] {
		p.Roof, p.Aims = 0, 0
	}
	p.Own = own
}

// Value is that of a setting in force.
func (p *Pilot) Value(key string) float64 {
	if v, other := p.Now[key]; other {
		return v
	}
	return p.Own[key]
}

func (p *Pilot) set(key string, value float64) {
	if p.Now[key] = value; value == p.Own[key] {
		delete(p.Now, key)
	}
}

// InForce are the settings that are others than the run's own; nil where there is none.
func (p *Pilot) InForce() Values {
	if p == nil || len(p.Now) == 0 {
		return nil
	}
	return maps.Clone(p.Now)
}

// Heard takes in a step, and what was said of it. Of several findings the most urgent counts, and of these the first.
func (p *Pilot) Heard(s advice.Step, said []advice.Advice) {
	if p == nil {
		return
	}
	p.Fresh = false
	if pace := s.Pace(); pace > 0 && s.Number <= p.Aims {
		p.Paces = append(p.Paces, pace)
	} else if t := p.Trial; t != nil && t.Setting == Rate && t.After > t.Before && s.Early() {
		t.Due++ // such a step tells nothing of a rate that may be too low
		p.Aims++
	}
	for _, a := range said {
		if len(a.Remedies) > 0 && (p.Alarm == nil || a.Urgency > p.Alarm.Urgency) {
			p.Alarm = &Alarm{Rule: a.Rule, Finding: a.Finding, Remedies: a.Remedies, Urgency: a.Urgency}
		}
	}
}

// Breaks takes in a step that could not be ended because of what it made of the policy. It tells whether anything can be
// done about it.
func (p *Pilot) Breaks(why error) bool {
	if p == nil || p.Anchor < 0 || p.Returns >= mostReturns {
		return false
	}
	p.Alarm = &Alarm{Rule: lost, Finding: why.Error(), Urgency: advice.Now,
		Remedies: []advice.Remedy{{Setting: Rate, Factor: farDown}}}
	return true
}

// Stands tells whether a step is the one to go back to, and wants a checkpoint.
func (p *Pilot) Stands(step int) bool { return p != nil && p.Anchor == step }

// Anchors are the steps that may be gone back to.
func (p *Pilot) Anchors() []int {
	if p == nil {
		return nil
	}
	return []int{p.Anchor}
}

// Decided is the first step that nothing was decided at.
func (p *Pilot) Decided() int {
	if p == nil {
		return 0
	}
	return p.Done
}

// Passes tells whether what was sampled ahead is to be passed over: it was drawn with other settings than are in force.
func (p *Pilot) Passes(engaged bool) bool { return p != nil && (p.Fresh || !engaged && len(p.Now) > 0) }

// Want is what is needed before the next step.
type Want int

const (
	Nothing Want = iota
	Measure
	Return // without measuring
)

// Wants says what is needed after a step; last is that of the run.
func (p *Pilot) Wants(step int, last bool) Want {
	alarm := p.Alarm
	switch {
	case alarm != nil && alarm.Urgency == advice.Now && p.Anchor >= 0:
		return Return
	case step < p.Done:
		return Nothing
	case p.Anchor < 0, alarm != nil && alarm.Urgency == advice.Soon:
		return Measure
	case p.Trial != nil && (step >= p.Trial.Due || last):
		return Measure
	case p.Trial == nil && !last && (alarm != nil || step >= p.Due):
		return Measure
	}
	return Nothing
}
