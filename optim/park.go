package optim

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/precondition"
	"github.com/seed-7879b91d/grpo/kernels"
)

// State is the state of an optimizer on the host. It lets several adapters that are trained in turn share one optimizer's
// memory. The zero value is that before the first step.
type State struct {
	Steps int
	M, V  []float32 // moments, as long as the slab; both nil: zeros
}

// Configure changes the settings of later steps.
func (a *Adam) Configure(cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	a.cfg = cfg
	return nil
}

// Park copies the optimizer's state to s: into its slices M and V, or where they are nil into new ones.
func (a *Adam) Park(s *State) error {
	precondition.NotNil("optim.Adam.Park", "s", s)
	if err := cmp.Or(fitsOrNil("M", s.M, a.made().m.Len()), fitsOrNil("V", s.V, a.m.Len())); err != nil {
		return err
	}
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

// Resume loads a state that Park copied. A state of another length, or with impossible values, is an input error, and
// changes nothing.
func (a *Adam) Resume(s *State) error {
	precondition.NotNil("optim.Adam.Resume", "s", s)
	if err := s.check(a.made().params.Len()); err != nil {
		return err
	}
	return a.restore(s)
}

// mostSteps bounds the number of steps in a state, against overflow.
const mostSteps = math.MaxInt32

func (s *State) check(n int) error {
	if s.Steps < 0 || s.Steps > mostSteps {
		return badinput.Errorf("an optimizer's state: found %d steps, expected 0 to %d", s.Steps, mostSteps)
	}
	for _, mo := range []struct {
		name string
		host []float32
	}{{"M", s.M}, {"V", s.V}} {
		if err := fitsOrNil(mo.name, mo.host, n); err != nil {
			return err
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
	if (s.M == nil) != (s.V == nil) { // means of gradients over the roots of zeros would be steps of any size
		return badinput.Errorf("an optimizer's state: found %d numbers in M and %d in V, expected both or neither", len(s.M), len(s.V))
	}
	return nil
}

// fitsOrNil returns an error if moments are there, and of another number than the parameters.
func fitsOrNil(name string, host []float32, n int) error {
	if host != nil && len(host) != n {
		return badinput.Errorf("an optimizer's state, %s: found %d numbers, expected %d, as many as there are parameters", name, len(host), n)
	}
	return nil
}

// noSquare is the index of the first number that cannot be a mean of squares, or −1.
func noSquare(v []float32) int {
	return slices.IndexFunc(v, func(x float32) bool { return !(x >= 0) || x-x != 0 })
}

// restore loads a state that was checked.
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
	a.ParamsWritten() // a parked state usually comes with its own parameters
	return a.b.Sync()
}
