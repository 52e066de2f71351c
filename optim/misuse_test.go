package optim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
)

// An optimizer that NewAdam did not make says so, whatever is called.
func TestAnAdamThatWasNotMade(t *testing.T) {
	for what, call := range map[string]func(a *Adam){
		"Step":      func(a *Adam) { _, _ = a.Step(1) },
		"GradNorm":  func(a *Adam) { _, _ = a.GradNorm() },
		"ZeroGrad":  func(a *Adam) { a.ZeroGrad() },
		"Spare":     func(a *Adam) { _ = a.Spare(nil) },
		"Park":      func(a *Adam) { _ = a.Park(new(State)) },
		"Resume":    func(a *Adam) { _ = a.Resume(new(State)) },
		"SaveState": func(a *Adam) { _ = a.SaveState("state") },
		"LoadState": func(a *Adam) { _ = a.LoadState("state") },
	} {
		for _, a := range []*Adam{nil, {}} {
			require.PanicsWithValue(t, "optim: the Adam has no backend and no parameters; make it by optim.NewAdam", func() { call(a) }, what)
		}
	}
}

// A state is parked in slices of its length only, and they are kept.
func TestParkingInSlices(t *testing.T) {
	p := newProblem(t, kerneltest.NewReference(), draws(1, 40), Defaults())
	p.step(draws(2, 40), 0.1)
	err := p.Park(&State{M: make([]float32, 40), V: make([]float32, 39)})
	require.ErrorContains(t, err, "V: found 39 numbers, expected 40, as many as there are parameters")
	m := make([]float32, 40)
	require.NoError(t, p.Park(&State{M: m}))
	require.NotZero(t, m[0])
}
