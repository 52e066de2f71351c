// Package autopilot acts on advice. It tries another value of one setting at a time, measures, and keeps the value unless
// the score falls; else it rolls the run back. It decides only by the steps and measurements that it is given, so a repeated
// run decides the same. It does not train or measure itself.
package autopilot

import (
	"maps"

	"github.com/seed-7879b91d/grpo/internal/advice"
	"github.com/seed-7879b91d/grpo/internal/stats"
)

// File has a line for each Decision of a run. It is not cut by a rollback.
const File = "autopilot.jsonl"

// The settings that it may change: those that can change between two steps and need no additional memory.
const (
	Rate        = "learning_rate"
	Temperature = "temperature"
	Format      = "format_coef"
	Completions = "completions_per_prompt"
	Overlong    = "overlong_penalty"
)

// Values are settings by name.
type Values map[string]float64

// Pilot is the state of the autopilot between two steps, which checkpoints save.
type Pilot struct {
	Own Values `json:"own"` // the run's settings; a missing one must not be changed
	Now Values `json:"now"` // the values in force where they differ from Own

	Anchor int          `json:"anchor"` // the step to roll back to; −1: none yet
	Known  stats.Judged `json:"known"`  // the measurement at Anchor
	Best   stats.Judged `json:"best"`   // the best measurement that was kept

	Trial *Trial  `json:"trial,omitempty"`
	Alarm *Alarm  `json:"alarm,omitempty"`
	Due   int     `json:"due"`  // the step of the next regular measurement
	Done  int     `json:"done"` // the first step without a decision
	Roof  float64 `json:"roof"` // a learning rate that broke the policy; 0: none

	Aims  int       `json:"aims,omitempty"`  // until this step the learning rate is adjusted to a pace
	Paces []float64 `json:"paces,omitempty"` // of the steps at this rate until then, in nats per run

	Returns int            `json:"returns"`        // consecutive rollbacks to the anchor
	Rests   map[string]int `json:"rests"`          // by remedy: the step until which it is not tried again
	Fresh   bool           `json:"fresh"`          // discard what was sampled ahead
	Last    Counts         `json:"counts"`         // of the deeds so far
	Lost    bool           `json:"lost,omitempty"` // once the run continued without any remedy
}

// Trial is a change that is being tried.
type Trial struct {
	Rule    string  `json:"rule"`
	Setting string  `json:"setting"`
	Before  float64 `json:"before"`
	After   float64 `json:"after"`
	Due     int     `json:"due"`               // the step to decide at
	Retreat bool    `json:"retreat,omitempty"` // the value before is no alternative: it, or a larger rate, caused a rollback
}

// Alarm is a finding that was not acted on yet.
type Alarm struct {
	Rule     string          `json:"rule"`
	Finding  string          `json:"finding"`
	Remedies []advice.Remedy `json:"remedies"`
	Urgency  advice.Urgency  `json:"urgency"`
}

// Counts are numbers of deeds.
type Counts struct {
	Tried  int `json:"tried"`
	Kept   int `json:"kept"`
	Undone int `json:"undone"` // including rollbacks
}

// Durations, in steps.
const (
	trialSteps   = 5  // length of a trial
	aimSteps     = 30 // how long a changed learning rate is adjusted to a pace
	calmSteps    = 10 // between measurements without a trial
	restSteps    = 40 // how long a remedy that did not help is not tried again
	mostReturns  = 6  // to the same anchor
	mostProblems = 128
)

// MeasurementSize is the number of problems to measure on, given how many there are and the completions of a step. A measurement
// every five steps then costs at most a fifth of their sampling.
func MeasurementSize(there, completions int) int { return min(there, completions, mostProblems) }

// New starts with the settings of a run.
func New(own Values) *Pilot {
	return &Pilot{Own: own, Now: Values{}, Anchor: -1, Rests: map[string]int{}}
}

// Resume resumes with the settings of a run. If the user has changed one, that value is in force in place of what was
// tried.
func (p *Pilot) Resume(own Values) {
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

// Value is the value of a setting in force.
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

// Overrides are the values in force that differ from the run's own; nil if none do.
func (p *Pilot) Overrides() Values {
	if p == nil || len(p.Now) == 0 {
		return nil
	}
	return maps.Clone(p.Now)
}

// Observe takes a step and its advice. Of several findings the most urgent one counts, and of equally urgent ones the first.
func (p *Pilot) Observe(s advice.Step, said []advice.Advice) {
	if p == nil {
		return
	}
	p.Fresh = false
	if pace := s.Pace(); pace > 0 && s.Number <= p.Aims {
		p.Paces = append(p.Paces, pace)
	} else if t := p.Trial; t != nil && t.Setting == Rate && t.After > t.Before && s.Early() {
		t.Due++ // such a step does not show whether the rate is too low
		p.Aims++
	}
	for _, a := range said {
		if len(a.Remedies) > 0 && (p.Alarm == nil || a.Urgency > p.Alarm.Urgency) {
			p.Alarm = &Alarm{Rule: a.Rule, Finding: a.Finding, Remedies: a.Remedies, Urgency: a.Urgency}
		}
	}
}

// HandleBroken takes a step that failed because it broke the policy. It reports whether there is a remedy.
func (p *Pilot) HandleBroken(why error) bool {
	if p == nil || p.Anchor < 0 || p.Returns >= mostReturns {
		return false
	}
	p.Alarm = &Alarm{Rule: lost, Finding: why.Error(), Urgency: advice.Now,
		Remedies: []advice.Remedy{{Setting: Rate, Factor: farDown}}}
	return true
}

// IsAnchor reports whether a step is the anchor, and so needs a checkpoint.
func (p *Pilot) IsAnchor(step int) bool { return p != nil && p.Anchor == step }

// Anchors are the steps that a rollback may go to.
func (p *Pilot) Anchors() []int {
	if p == nil {
		return nil
	}
	return []int{p.Anchor}
}

// FirstUndecided is the first step without a decision.
func (p *Pilot) FirstUndecided() int {
	if p == nil {
		return 0
	}
	return p.Done
}

// DiscardsAhead reports whether to discard what was sampled ahead, as it was sampled with other settings than those in force.
func (p *Pilot) DiscardsAhead(engaged bool) bool {
	return p != nil && (p.Fresh || !engaged && len(p.Now) > 0)
}

// Action is what the autopilot needs before the next step.
type Action int

const (
	NoAction Action = iota
	Measure
	RollBack // roll back without measuring
)

// NextAction says what is needed after a step; last is set for the last one of the run.
func (p *Pilot) NextAction(step int, last bool) Action {
	alarm := p.Alarm
	switch {
	case alarm != nil && alarm.Urgency == advice.Now && p.Anchor >= 0:
		return RollBack
	case step < p.Done:
		return NoAction
	case p.Anchor < 0, alarm != nil && alarm.Urgency == advice.Soon:
		return Measure
	case p.Trial != nil && (step >= p.Trial.Due || last):
		return Measure
	case p.Trial == nil && !last && (alarm != nil || step >= p.Due):
		return Measure
	}
	return NoAction
}
