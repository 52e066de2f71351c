package optim

import (
	"github.com/seed-7879b91d/grpo/internal/badinput"
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

// Resume goes on from what Park copied.
func (a *Adam) Resume(s *State) error {
	for _, mo := range []struct {
		host []float32
		slab kernels.Buffer
	}{{s.M, a.m}, {s.V, a.v}} {
		switch {
		case mo.host == nil:
			a.b.Zero(mo.slab)
		case len(mo.host) != mo.slab.Len():
			return badinput.Errorf("an optimizer's state of %d numbers, expected %d", len(mo.host), mo.slab.Len())
		default:
			a.b.Upload(mo.slab, mo.host)
		}
	}
	a.step, a.reach = s.Steps, reach{} // the parameters are others, too
	return a.b.Sync()
}
