package optim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// reach is an upper bound of the numbers in the slabs. It proves, without another pass over the slabs, that a step cannot overflow: the
// bound after a step follows from the bound before it and the gradient's norm, which is known anyway. Sane settings stay far below the
// limits. A step that the bound does not prove safe is first tried piece by piece (onTrial). The bound holds while only steps write the
// slabs; ParamsWritten drops it.
type reach struct {
	known  bool
	params float64 // bounds the magnitude of every parameter
	moment float64 // bounds the magnitude of every first moment, and the root of every second moment
}

// Limits well below the largest float32, 3.4e38, and its root, as bounds ignore rounding.
const (
	mostParam  = 1e37
	mostMoment = 1e18
)

// ParamsWritten tells the optimizer that the parameters were written other than by Step, so that the next step measures them again.
// Resume and LoadState call it.
func (a *Adam) ParamsWritten() { a.reach = reach{} }

// measure computes bounds from the norms of the slabs.
func (a *Adam) measure() (r reach, err error) {
	norm := func(slab kernels.Buffer) float64 {
		if err == nil {
			a.b.SumSquares(a.squares, slab, slab.Len())
			err = a.b.Download(a.sumAny, a.squares)
		}
		return math.Sqrt(a.sum[0])
	}
	r = reach{true, norm(a.params), norm(a.m)}
	r.moment = max(r.moment, math.Sqrt(norm(a.v))) // the norm is at least the largest element
	if err != nil {
		err = fmt.Errorf("optim: norms: %w", err)
	}
	return r, err
}

// after is the bound after a step: a parameter changes by at most lr·m/eps plus its decay, as the root in the denominator is at least 0.
// ok reports whether it is within the limits.
func (r reach) after(s kernels.AdamStep, norm float64) (next reach, ok bool) {
	next = reach{true, 0, max(r.moment, norm*float64(s.GradScale))}
	rate := float64(s.LR)
	next.params = r.params + rate*next.moment/(float64(s.Correction1)*float64(s.Eps)) + rate*float64(s.WeightDecay)*r.params
	return next, next.params < mostParam && next.moment < mostMoment // of NaN, neither
}

// boundedStep takes a step, unless that would leave a number that is not finite.
func (a *Adam) boundedStep(s kernels.AdamStep, norm, lr float64) (err error) {
	next, ok := a.reach.after(s, norm)
	if !a.reach.known || !ok { // the bound only ever grows: measure before giving up
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

// OverflowError is a step that would have made a parameter infinite or NaN.
type OverflowError struct {
	Tensor string // of the parameter
	Value  float32
	Rate   float64
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("learning_rate: found %v, which would make a number of %s %v, so weights and moments are as they were before the "+
		"step", e.Rate, e.Tensor, e.Value)
}

// pieceLen is the number of parameters that onTrial tries at a time.
const pieceLen = 1 << 18

// piece is a copy, on the host, of a range of the slabs that a step changes: parameters, first and second moments.
type piece [3][]float32

// each calls fn for each slab with its range [from, to) and the copy of that in the piece.
func (p *piece) each(a *Adam, from, to int, fn func(slab kernels.Buffer, host []float32) error) error {
	for i, slab := range []kernels.Buffer{a.params, a.m, a.v} {
		if p[i] == nil { // the first piece is the largest
			p[i] = make([]float32, to-from)
		}
		p[i] = p[i][:to-from]
		if err := fn(slab.Slice(from, to), p[i]); err != nil {
			return err
		}
	}
	return nil
}

// onTrial takes a step if it leaves every number finite. It first tries the step on one piece after the other, and restores each: a
// copy of everything would exceed the memory plan.
func (a *Adam) onTrial(s kernels.AdamStep, lr float64) error {
	var before, after piece
	var over *OverflowError
	down := func(slab kernels.Buffer, host []float32) error { return a.b.Download(host, slab) }
	up := func(slab kernels.Buffer, host []float32) error { a.b.Upload(slab, host); return nil }
	for from, n := 0, a.params.Len(); from < n; from += pieceLen {
		to := min(from+pieceLen, n)
		if err := before.each(a, from, to, down); err != nil {
			return err
		}
		a.queueUpdate(s, from, to)
		err := errors.Join(after.each(a, from, to, down), before.each(a, from, to, up))
		if err == nil {
			err = a.lost(&after, from, lr)
		}
		var here *OverflowError
		if errors.As(err, &here) {
			over = cmp.Or(over, here) // go on: a later piece may have a gradient as the cause
		} else if err != nil {
			return err
		}
	}
	if over != nil {
		return badinput.Errorf("%w; lower it", over)
	}
	a.improve(s)
	return nil
}

// lost is an error if a piece has numbers after a step that are not finite.
func (a *Adam) lost(after *piece, from int, lr float64) error {
	noNumber := func(x float32) bool { return x-x != 0 }
	for _, moments := range after[1:] { // moments overflow only because of the gradient
		if i := slices.IndexFunc(moments, noNumber); i >= 0 {
			at, g := from+i, make([]float32, 1)
			if err := a.b.Download(g, a.grads.Slice(at, at+1)); err != nil {
				return err
			}
			return &NonFiniteError{Tensor: a.locate(at), Index: at, Value: g[0]}
		}
	}
	if i := slices.IndexFunc(after[0], noNumber); i >= 0 {
		return &OverflowError{Tensor: a.locate(from + i), Value: after[0][i], Rate: lr}
	}
	return nil
}
