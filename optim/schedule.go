package optim

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Shape is the shape of the learning rate after warm-up.
type Shape uint8

const (
	Constant Shape = iota
	Linear         // decays linearly
	Cosine         // decays along half a cosine wave
)

var shapeNames = []string{"constant", "linear", "cosine"}

func (s Shape) String() string {
	if int(s) >= len(shapeNames) {
		return fmt.Sprintf("Shape(%d)", uint8(s))
	}
	return shapeNames[s]
}

// Schedule is the learning rate over the steps of a run, as a share of its peak.
type Schedule struct {
	Shape  Shape
	Total  int // steps of the whole run; Constant needs none
	Warmup int // steps of linear warm-up; the last one is at the peak
}

// ParseSchedule makes the schedule of that name. One that falls needs to know where the run ends.
func ParseSchedule(name string, total, warmup int) (Schedule, error) {
	i := slices.Index(shapeNames, name)
	if i < 0 {
		return Schedule{}, badinput.Errorf("schedule %q is not known; expected one of %q", name, shapeNames)
	}
	s := Schedule{Shape: Shape(i), Total: total, Warmup: warmup}
	switch {
	case warmup < 0:
		return Schedule{}, badinput.Errorf("warmup_steps is %d, expected 0 (none) or more", warmup)
	case s.Shape != Constant && total < 1:
		return Schedule{}, badinput.Errorf("total_steps is %d: schedule %q needs a fixed number of steps to fall over; set total_steps",
			total, name)
	case s.Shape != Constant && warmup >= total:
		return Schedule{}, badinput.Errorf("warmup_steps is %d, expected less than total_steps, which is %d", warmup, total)
	}
	return s, nil
}

// Factor is the share of the peak learning rate at a step, counted from 1. It rises linearly to 1 at step
// Warmup (or is 1 at the first), and falls so that it would reach 0 one step after Total: every step of
// the run learns something. After that it is 0.
func (s Schedule) Factor(step int) float64 {
	if step < s.Warmup {
		return float64(max(step, 0)) / float64(max(s.Warmup, 1))
	}
	peak := max(s.Warmup, 1)
	done := float64(step-peak) / float64(s.Total+1-peak)
	switch {
	case s.Shape == Constant || step <= peak:
		return 1
	case done >= 1:
		return 0
	case s.Shape == Linear:
		return 1 - done
	}
	return (1 + math.Cos(math.Pi*done)) / 2
}
