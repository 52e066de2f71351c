package optim

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Config are the settings of Adam. WeightDecay above zero makes it AdamW: the decay is decoupled from
// the gradient.
type Config struct {
	Beta1, Beta2 float64 // decay of the means of the gradient and of its square
	Eps          float64 // added to the root, outside
	WeightDecay  float64 // times the learning rate; not for spared parameters
	ClipNorm     float64 // gradients of a larger global norm are scaled down to it; 0: never
}

// Defaults are betas 0.9 and 0.95, eps 1e-12, no decay and no clipping.
func Defaults() Config { return Config{Beta1: 0.9, Beta2: 0.95, Eps: 1e-12} }

// leastClip is the smallest ClipNorm: gradients scaled down to less would vanish against Eps.
const leastClip = 1e-12

// check validates the settings, also as float32, in which they are used.
func (c Config) check() error {
	for _, b := range []struct {
		key   string
		value float64
	}{{"adam_beta1", c.Beta1}, {"adam_beta2", c.Beta2}} {
		if !(b.value >= 0 && float32(b.value) < 1) {
			return badinput.Errorf("%s is %v, expected at least 0 and less than 1", b.key, b.value)
		}
	}
	if !(float32(c.Eps) > 0) || c.Eps > math.MaxFloat32 {
		return badinput.Errorf("adam_eps is %v, expected a small number above 0, at most 3.4e38, such as 1e-12", c.Eps)
	}
	if !(c.WeightDecay >= 0) || c.WeightDecay > math.MaxFloat32 {
		return badinput.Errorf("weight_decay is %v, expected 0 (off) or more, at most 3.4e38", c.WeightDecay)
	}
	if !(c.ClipNorm >= 0) || math.IsInf(c.ClipNorm, 0) || c.ClipNorm > 0 && c.ClipNorm < leastClip {
		return badinput.Errorf("grad_clip_norm is %v, expected 0 (off) or at least %v", c.ClipNorm, leastClip)
	}
	return nil
}

// Adam holds the moments of one slab of parameters. NewAdam makes one; the zero value cannot be used. It is not safe for concurrent use,
// and computes on the backend, which one goroutine at a time may use. There is nothing to close: its memory is freed with it, or with
// the backend.
type Adam struct {
	b             kernels.Backend
	cfg           Config
	params, grads kernels.Buffer
	m, v          kernels.Buffer // means of the gradient and of its square
	locate        func(offset int) string
	spared        [][2]int
	step          int // steps done
	reach         reach

	squares kernels.Buffer // F64 [1]
	sum     []float64      // [1], the same on the host
	sumAny  any            // sum, boxed once: a step allocates nothing
}

// NewAdam makes an optimizer of params with the gradients grads, two F32 slabs of equal length. locate
// names the tensor at a slab offset, for messages; nil: messages name the offset.
func NewAdam(b kernels.Backend, params, grads kernels.Buffer, cfg Config, locate func(offset int) string) (*Adam, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	switch {
	case b == nil:
		return nil, errors.New("optim: found no backend, expected the one that parameters and gradients are of")
	case params == nil:
		return nil, errors.New("optim: found no parameters, expected an f32 slab")
	case grads == nil:
		return nil, errors.New("optim: found no gradients, expected an f32 slab")
	}
	if reflect.ValueOf(params).Comparable() && params == grads {
		return nil, errors.New("optim: params and grads are one and the same buffer, expected two: a step reads the one and writes the other")
	}
	n := params.Len()
	if params.DType() != kernels.F32 || grads.DType() != kernels.F32 || grads.Len() != n {
		return nil, fmt.Errorf("optim: parameters are %v [%d] and gradients %v [%d], expected f32 of equal length",
			params.DType(), n, grads.DType(), grads.Len())
	}
	if locate == nil {
		locate = func(offset int) string { return fmt.Sprintf("parameter %d", offset) }
	}
	a := &Adam{b: b, cfg: cfg, params: params, grads: grads, locate: locate, sum: make([]float64, 1)}
	a.sumAny = a.sum
	if err := a.alloc(n); err != nil {
		return nil, err
	}
	return a, nil
}

// alloc allocates the moments, all or none of them.
func (a *Adam) alloc(n int) (err error) {
	var found []kernels.Buffer
	for _, slab := range []struct {
		to    *kernels.Buffer
		dtype kernels.DType
		n     int
		what  string
	}{{&a.m, kernels.F32, n, "first moments"}, {&a.v, kernels.F32, n, "second moments"}, {&a.squares, kernels.F64, 1, "gradient norm"}} {
		if *slab.to, err = a.b.Alloc(slab.dtype, slab.n); err != nil {
			for _, b := range found {
				a.b.Release(b)
			}
			return fmt.Errorf("optim: %s: %w", slab.what, err)
		}
		found = append(found, *slab.to)
	}
	return nil
}

// Update says what a step did.
type Update struct {
	Step      int     // 1 for the first
	GradNorm  float64 // of all gradients together, before clipping
	ClipScale float64 // what they were multiplied with: 1 if they were not clipped
}

// NonFiniteError is a gradient that is infinite or not a number, or one whose square is.
type NonFiniteError struct {
	Tensor string // that it belongs to
	Index  int    // in the slab
	Value  float32
}

func (e *NonFiniteError) Error() string {
	much := ""
	if e.Value-e.Value == 0 {
		much = ", whose square is infinite"
	}
	return fmt.Sprintf("the gradient of %s is %v%s (element %d of all parameters); weights and moments are as they were before it",
		e.Tensor, e.Value, much, e.Index)
}

// Step updates the parameters once, at learning rate lr. It changes nothing if a gradient is not finite (the error is
// a *NonFiniteError), or if a parameter would overflow (an *OverflowError). For the latter the caller must call
// ParamsWritten if anything else has written the parameters. Step waits for the gradients; the update itself is queued.
func (a *Adam) Step(lr float64) (Update, error) {
	if !(lr >= 0) || math.IsInf(lr, 0) {
		return Update{}, badinput.Errorf("learning_rate is %v, expected a finite number of at least 0", lr)
	}
	norm, err := a.GradNorm()
	if err != nil {
		return Update{}, err
	}
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return Update{}, a.findNonFinite()
	}
	u := Update{Step: a.step + 1, GradNorm: norm, ClipScale: 1}
	if a.cfg.ClipNorm > 0 && norm > a.cfg.ClipNorm {
		u.ClipScale = a.cfg.ClipNorm / norm
	}
	if err := a.boundedStep(a.cfg.kernelStep(lr, u), norm, lr); err != nil {
		return Update{}, err
	}
	a.step = u.Step
	return u, nil
}

// Spare exempts ranges [from, to) of the slab from weight decay, such as the scales of norms. The ranges must be in
// order and within the slab.
func (a *Adam) Spare(ranges [][2]int) error {
	at, n := 0, a.made().params.Len()
	for i, r := range ranges {
		if r[0] < at || r[1] < r[0] || r[1] > n {
			return fmt.Errorf("optim: spared range %d is [%d, %d) after %d, expected ranges in order, of 0 to %d", i, r[0], r[1], at, n)
		}
		at = r[1]
	}
	a.spared = slices.Clone(ranges)
	return nil
}

// improve queues the update of the whole slab, in one piece if nothing is exempt from weight decay.
func (a *Adam) improve(s kernels.AdamStep) {
	n := a.params.Len()
	if s.WeightDecay == 0 || len(a.spared) == 0 {
		a.b.Adam(a.params, a.m, a.v, a.grads, s, n)
		return
	}
	a.queueUpdate(s, 0, n)
}

// queueUpdate queues the update of parameters [from, to), in pieces with and without weight decay.
func (a *Adam) queueUpdate(s kernels.AdamStep, from, to int) {
	spared, at := s, from
	spared.WeightDecay = 0
	for _, r := range a.spared {
		a.part(s, at, min(r[0], to))
		a.part(spared, max(r[0], from), min(r[1], to))
		at = max(at, r[1])
	}
	a.part(s, at, to)
}

// part queues the update of parameters [from, to).
func (a *Adam) part(s kernels.AdamStep, from, to int) {
	if to > from {
		a.b.Adam(a.params.Slice(from, to), a.m.Slice(from, to), a.v.Slice(from, to), a.grads.Slice(from, to), s, to-from)
	}
}

// GradNorm waits for the gradients and returns their global norm.
func (a *Adam) GradNorm() (float64, error) {
	a.made().b.SumSquares(a.squares, a.grads, a.grads.Len())
	if err := a.b.Download(a.sumAny, a.squares); err != nil {
		return 0, fmt.Errorf("optim: gradient norm: %w", err)
	}
	return math.Sqrt(a.sum[0]), nil
}

// kernelStep makes the kernel's arguments. The bias corrections use the betas rounded to float32, as the
// moments decay with these.
func (c Config) kernelStep(lr float64, u Update) kernels.AdamStep {
	beta1, beta2 := float32(c.Beta1), float32(c.Beta2)
	correction := func(beta float32) float32 {
		return float32(1 - math.Pow(float64(beta), float64(u.Step)))
	}
	return kernels.AdamStep{
		LR: float32(lr), Beta1: beta1, Beta2: beta2, Eps: float32(c.Eps), WeightDecay: float32(c.WeightDecay),
		GradScale: float32(u.ClipScale), Correction1: correction(beta1), Correction2: correction(beta2),
	}
}

// ZeroGrad zeroes the gradients.
func (a *Adam) ZeroGrad() { a.made().b.Zero(a.grads) }

// made is the optimizer itself. It panics if NewAdam did not make it.
func (a *Adam) made() *Adam {
	if a == nil || a.b == nil {
		panic("optim: the Adam has no backend and no parameters; make it by optim.NewAdam")
	}
	return a
}

// Steps is the number of steps done.
func (a *Adam) Steps() int { return a.step }

// chunk is the size of host buffers, in numbers.
const chunk = 1 << 20

// findNonFinite finds the first gradient that is not finite.
func (a *Adam) findNonFinite() error {
	err := a.eachChunk(a.grads, func(from int, values []float32) error {
		for i, x := range values {
			if x-x != 0 {
				return &NonFiniteError{Tensor: a.locate(from + i), Index: from + i, Value: x}
			}
		}
		return nil
	})
	if err == nil {
		err = fmt.Errorf("optim: the norm of the gradients is %v, but every one of them is finite", math.Sqrt(a.sum[0]))
	}
	return err
}

// eachChunk downloads a slab in chunks.
func (a *Adam) eachChunk(b kernels.Buffer, fn func(from int, values []float32) error) error {
	host := make([]float32, min(chunk, b.Len()))
	for from := 0; from < b.Len(); from += chunk {
		to := min(from+chunk, b.Len())
		if err := a.b.Download(host[:to-from], b.Slice(from, to)); err != nil {
			return err
		}
		if err := fn(from, host[:to-from]); err != nil {
			return err
		}
	}
	return nil
}
