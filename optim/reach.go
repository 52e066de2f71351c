package optim

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// reach bounds the numbers of the slabs from above. A step whose result is within what a number can hold by that bound, as any of
// sane settings is by many orders of magnitude, is not looked at again: the bound follows from the gradient's norm, which is there
// anyway. Only one that may be beyond is done on trial. The bound is kept from step to step: it is true while nobody but a step
// writes the slabs, and is forgotten where somebody did.
type reach struct {
	known  bool
	params float64 // none of the parameters is larger
	moment float64 // nor is a mean of the gradient, or the root of one of its squares
}

// Bounds well below the largest number, 3.4e38, and its root: sums are rounded.
const (
	mostParam  = 1e37
	mostMoment = 1e18
)

// ParamsWritten says that somebody else wrote the parameters after the last step: the next one looks at them again. Resume and
// LoadState say so by themselves.
func (a *Adam) ParamsWritten() { a.reach = reach{} }

// measure looks at the slabs where nobody knows what is in them.
func (a *Adam) measure() (r reach, err error) {
	norm := func(slab kernels.Buffer) float64 {
		if err == nil {
			a.b.SumSquares(a.squares, slab, slab.Len())
			err = a.b.Download(a.sumAny, a.squares)
		}
		return math.Sqrt(a.sum[0])
	}
	r = reach{true, norm(a.params), norm(a.m)}
	r.moment = max(r.moment, math.Sqrt(norm(a.v))) // no element is larger than the norm of all
	if err != nil {
		err = fmt.Errorf("optim: norms: %w", err)
	}
	return r, err
}

// after is what the slabs are bounded by after a step, in which no root is less than zero: the change of a parameter is at most
// lr·m/eps, and its decay. ok tells whether that is well within what numbers can hold.
func (r reach) after(s kernels.AdamStep, norm float64) (next reach, ok bool) {
	next = reach{true, 0, max(r.moment, norm*float64(s.GradScale))}
	rate := float64(s.LR)
	next.params = r.params + rate*next.moment/(float64(s.Correction1)*float64(s.Eps)) + rate*float64(s.WeightDecay)*r.params
	return next, next.params < mostParam && next.moment < mostMoment // of NaN, neither
}

// within does a step. One that would leave a number which is not finite does not happen.
func (a *Adam) within(s kernels.AdamStep, norm, lr float64) (err error) {
	next, ok := a.reach.after(s, norm)
	if !a.reach.known || !ok { // the bound grows from step to step, the numbers need not
		if a.reach, err = a.measure(); err != nil {
			return err
		}
		next, ok = a.reach.after(s, norm)
	}
	if !ok {
		a.reach.known = false
		return a.onTrial(s, lr)
	}
	a.improve(s)
	a.reach = next
	return nil
}

// OverflowError is a step that would have made a parameter infinite, or no number.
type OverflowError struct {
	Tensor string // that the parameter is of
	Value  float32
	Rate   float64
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("learning_rate: found %v, which would make a number of %s %v, so weights and moments are as they were before the "+
		"step; lower it", e.Rate, e.Tensor, e.Value)
}

// onTrial does a step, and takes it back where it left a number that is not finite.
func (a *Adam) onTrial(s kernels.AdamStep, lr float64) error {
	before, params := State{Steps: a.step}, make([]float32, a.params.Len())
	if err := errors.Join(a.Park(&before), a.b.Download(params, a.params)); err != nil {
		return err
	}
	a.improve(s)
	err := a.lost(lr)
	if err == nil {
		return nil
	}
	a.b.Upload(a.params, params)
	return errors.Join(err, a.restore(&before))
}

// errLost ends the search for a number.
var errLost = errors.New("found")

// lost says what is not finite after a step.
func (a *Adam) lost(lr float64) error {
	at, value := 0, float32(0)
	first := func(slab kernels.Buffer) error {
		return a.eachChunk(slab, func(from int, values []float32) error {
			for i, x := range values {
				if x-x != 0 {
					at, value = from+i, x
					return errLost
				}
			}
			return nil
		})
	}
	for _, slab := range []kernels.Buffer{a.m, a.v} { // of which the gradient alone is the cause
		switch err := first(slab); {
		case errors.Is(err, errLost):
			g := make([]float32, 1)
			if err := a.b.Download(g, a.grads.Slice(at, at+1)); err != nil {
				return err
			}
			return &NonFiniteError{Tensor: a.locate(at), Index: at, Value: g[0]}
		case err != nil:
			return err
		}
	}
	err := first(a.params)
	if errors.Is(err, errLost) {
		err = badinput.Errorf("%w", &OverflowError{Tensor: a.locate(at), Value: value, Rate: lr})
	}
	return err
}
