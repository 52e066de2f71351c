package optim

import (
	"math"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

func TestScheduleFactors(t *testing.T) {
	half := math.Sqrt(0.5)
	for _, c := range []struct {
		name          string
		total, warmup int
		want          []float64 // at steps 1, 2, …
	}{
		{"constant", 0, 0, []float64{1, 1, 1}},
		{"constant", 0, 4, []float64{0.25, 0.5, 0.75, 1, 1, 1}},
		{"linear", 4, 0, []float64{1, 0.75, 0.5, 0.25, 0, 0}},
		{"linear", 4, 1, []float64{1, 0.75, 0.5, 0.25, 0}},
		{"linear", 5, 2, []float64{0.5, 1, 0.75, 0.5, 0.25, 0, 0}},
		{"cosine", 4, 0, []float64{1, (1 + half) / 2, 0.5, (1 - half) / 2, 0, 0}},
		{"cosine", 6, 3, []float64{1. / 3, 2. / 3, 1, (1 + half) / 2, 0.5, (1 - half) / 2, 0}},
		{"cosine", 1, 0, []float64{1, 0}},
	} {
		s, err := ParseSchedule(c.name, c.total, c.warmup)
		if err != nil {
			t.Fatal(err)
		}
		if s.Shape.String() != c.name {
			t.Errorf("%s was parsed as %v", c.name, s.Shape)
		}
		for i, want := range c.want {
			if got := s.Factor(i + 1); math.Abs(got-want) > 1e-15 {
				t.Errorf("%s, %d steps, warm-up %d: step %d is %v, expected %v", c.name, c.total, c.warmup, i+1, got, want)
			}
		}
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	for _, c := range []struct {
		name          string
		total, warmup int
		want          string
	}{
		{"sawtooth", 1, 0, `schedule "sawtooth" is not known; expected one of ["constant" "linear" "cosine"]`},
		{"linear", 0, 0, `schedule "linear" needs a fixed number of steps to fall over; set total_steps`},
		{"cosine", -3, 0, "total_steps is -3"},
		{"cosine", 10, 10, "warmup_steps is 10, expected less than total_steps, which is 10"},
		{"constant", 0, -1, "warmup_steps is -1"},
	} {
		if _, err := ParseSchedule(c.name, c.total, c.warmup); err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, expected %q", err, c.want)
		}
	}
}

func TestAShapeThatIsNone(t *testing.T) {
	if got := Shape(9).String(); got != "Shape(9)" {
		t.Errorf("%q", got)
	}
}

// A step number below 1 gives a number, too.
func TestAStepBeforeTheFirst(t *testing.T) {
	for _, shape := range []Shape{Constant, Linear, Cosine} {
		for _, warmup := range []int{0, 3} {
			if got := (Schedule{Shape: shape, Total: 10, Warmup: warmup}).Factor(-1); got != 0 {
				t.Errorf("%s, warm-up %d: %v, expected 0", shape, warmup, got)
			}
		}
	}
}
