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
		"step", e.Rate, e.Tensor, e.Value)
}

// pieceLen is how many numbers of each slab are tried at a time.
const pieceLen = 1 << 18

// piece is some of all that a step changes, on the host: of the parameters, and of both moments.
type piece [3][]float32

// each calls fn with what is from and up to offsets in each slab, and with where that is in the piece.
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

// onTrial does a step that leaves every number finite. It is tried in pieces before, and each is put back: a copy of all would be
// memory that no plan has.
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
		a.among(s, from, to)
		err := errors.Join(after.each(a, from, to, down), before.each(a, from, to, up))
		if err == nil {
			err = a.lost(&after, from, lr)
		}
		var here *OverflowError
		if errors.As(err, &here) {
			over = cmp.Or(over, here) // further on a gradient may turn out to be the cause
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

// lost says what is not finite in a piece after a step.
func (a *Adam) lost(after *piece, from int, lr float64) error {
	noNumber := func(x float32) bool { return x-x != 0 }
	for _, moments := range after[1:] { // of which the gradient alone is the cause
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
