package optim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest"
	"github.com/seed-7879b91d/grpo/kernels/kerneltest/deferred"
)

// onEach runs a test on the reference backend, and on one with opaque memory and deferred operations, like a device.
func onEach(t *testing.T, test func(t *testing.T, b kernels.Backend)) {
	t.Run("plain", func(t *testing.T) { test(t, kerneltest.NewReference()) })
	t.Run("deferred", func(t *testing.T) { test(t, deferred.New(kerneltest.NewReference())) })
}

// problem is a slab that is being optimised.
type problem struct {
	*Adam
	t testing.TB
}

func newProblem(t testing.TB, b kernels.Backend, start []float32, cfg Config) problem {
	t.Helper()
	params, err := b.Alloc(kernels.F32, len(start))
	if err != nil {
		t.Fatal(err)
	}
	grads, err := b.Alloc(kernels.F32, len(start))
	if err != nil {
		t.Fatal(err)
	}
	b.Upload(params, start)
	a, err := NewAdam(b, params, grads, cfg, func(offset int) string { return fmt.Sprintf("tensor%d", offset/10) })
	if err != nil {
		t.Fatal(err)
	}
	return problem{a, t}
}

func (p problem) get(b kernels.Buffer) []float32 {
	p.t.Helper()
	out := make([]float32, b.Len())
	if err := p.b.Download(out, b); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// step uploads gradients and makes a step.
func (p problem) step(grads []float32, lr float64) Update {
	p.t.Helper()
	p.b.Upload(p.grads, grads)
	u, err := p.Step(lr)
	if err != nil {
		p.t.Fatal(err)
	}
	return u
}

// all is everything that a step changes.
func (p problem) all() []float32 {
	return slices.Concat(p.get(p.params), p.get(p.m), p.get(p.v))
}

func draws(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// Parameters and gradients must be different buffers.
func TestNewAdamOfOneBuffer(t *testing.T) {
	b := deferred.New(kerneltest.NewReference())
	slab, err := b.Alloc(kernels.F32, 4)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewAdam(b, slab, slab, Defaults(), nil)
	if err == nil || !strings.Contains(err.Error(), "params and grads are one and the same buffer") {
		t.Errorf("got %v", err)
	}
	if _, err := NewAdam(b, slab.Slice(0, 2), slab.Slice(2, 4), Defaults(), nil); err != nil {
		t.Error(err)
	}
}
