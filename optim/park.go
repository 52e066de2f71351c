package optim

import (
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/given"
	"github.com/seed-7879b91d/grpo/kernels"
)

// State is what an optimizer knows of its parameters, on the host: several sets of parameters that are improved by turns
// share the memory of one. The zero value is that of parameters that were never improved.
type State struct {
	Steps int
	M, V  []float32 // moments, as long as the slab; nil: zeros
}

// Configure changes the settings for the steps to come.
func (a *Adam) Configure(cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	a.cfg = cfg
	return nil
}

// Park copies what is known to s.
func (a *Adam) Park(s *State) error {
	given.All("optim.Adam.Park", "s", s)
	s.Steps = a.step
	for _, mo := range []struct {
		host *[]float32
		slab kernels.Buffer
	}{{&s.M, a.m}, {&s.V, a.v}} {
		if *mo.host == nil {
			*mo.host = make([]float32, mo.slab.Len())
		}
		if err := a.b.Download(*mo.host, mo.slab); err != nil {
			return err
		}
	}
	return nil
}

// Resume goes on from what Park copied. A state of other parameters, or one that no steps can have left, is an input error,
// and changes nothing.
func (a *Adam) Resume(s *State) error {
	given.All("optim.Adam.Resume", "s", s)
	if err := s.check(a.params.Len()); err != nil {
		return err
	}
	return a.restore(s)
}

// mostSteps keeps the number of the next step far from overflow.
const mostSteps = math.MaxInt32

func (s *State) check(n int) error {
	if s.Steps < 0 || s.Steps > mostSteps {
		return badinput.Errorf("an optimizer's state: found %d steps, expected 0 to %d", s.Steps, mostSteps)
	}
	for _, mo := range []struct {
		name string
		host []float32
	}{{"M", s.M}, {"V", s.V}} {
		if mo.host != nil && len(mo.host) != n {
			return badinput.Errorf("an optimizer's state, %s: found %d numbers, expected %d, as many as there are parameters",
				mo.name, len(mo.host), n)
		}
	}
	for i, x := range s.M {
		if x-x != 0 {
			return badinput.Errorf("an optimizer's state, M: element %d is %v, expected finite numbers", i, x)
		}
	}
	if i := noSquare(s.V); i >= 0 {
		return badinput.Errorf("an optimizer's state, V: element %d is %v, expected finite numbers of at least 0", i, s.V[i])
	}
	return nil
}

// noSquare finds a number that is no mean of squares; -1: all are.
func noSquare(v []float32) int {
	return slices.IndexFunc(v, func(x float32) bool { return !(x >= 0) || x-x != 0 })
}

// restore takes a state as it is.
func (a *Adam) restore(s *State) error {
	for _, mo := range []struct {
		host []float32
		slab kernels.Buffer
	}{{s.M, a.m}, {s.V, a.v}} {
		if mo.host == nil {
			a.b.Zero(mo.slab)
		} else {
			a.b.Upload(mo.slab, mo.host)
		}
	}
	a.step = s.Steps
	a.ParamsWritten() // the parameters are others, too
	return a.b.Sync()
}
