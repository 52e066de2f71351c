package cpu

// #cgo CFLAGS: -O3 -std=c11 -Wall -Wno-psabi
// #include "kernels.h"
import "C"

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/kernels"
)

// Options are the settings of a backend; zero values are good defaults.
type Options struct {
	Threads int           // how many threads compute, the caller's included; 0: as many as Go runs at once
	Variant string        // "amx", "avx512", "avx2", "portable"; "": GRPO_CPU if set, or the fastest in a short probe
	Order   kernels.Order // of the sums of products
}

// backend computes on this machine's processors. It relies on the checks of kernels.Checked.
type backend struct {
	ops       *C.grpo_variant
	order     kernels.Order
	requested string // the name of the variant that the caller or GRPO_CPU chose; "": none
	pairs     bool   // bf16 numbers are multiplied with bf16 weights in pairs
	pool      pool
	args      unsafe.Pointer // C memory of ARGS_BYTES: the arguments of the current operation
	held      []*memory      // what that operation uses, so that it is not freed meanwhile; see keep
	busy      atomic.Bool    // a kernel is running

	scratches []region // one for each worker
	shares    [sharedSlots]region
}

// New starts the workers and returns a checked backend.
func New(o Options) (kernels.Backend, error) {
	b, err := newBackend(o)
	if err != nil {
		return nil, err
	}
	return kernels.Checked(b), nil
}

func newBackend(o Options) (*backend, error) {
	v, err := chooseVariant(o.Variant, o.Order)
	if err != nil {
		return nil, err
	}
	if o.Threads < 0 || o.Threads > math.MaxInt16 {
		return nil, badinput.Errorf("%d threads; expected 1 to %d, or 0 for one per processor", o.Threads, math.MaxInt16)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	p, err := newPool(o.Threads)
	if err != nil {
		return nil, err
	}
	b := &backend{
		ops:       v,
		order:     o.Order,
		requested: cmp.Or(o.Variant, os.Getenv("GRPO_CPU")),
		pairs:     v.lanes == 16 && pairsPay(),
		pool:      p,
		args:      C.grpo_alloc(C.ARGS_BYTES),
		held:      make([]*memory, 0, 32),
		scratches: make([]region, o.Threads),
	}
	b.scratch(4096)
	return b, nil
}

// Name is "cpu: avx512, 2 threads".
func (b *backend) Name() string {
	return fmt.Sprintf("cpu: %s, %s", C.GoString(b.ops.name), plural.Of(b.threads(), "thread"))
}

// Order names the order of sums, which is the same on every processor with fused multiply-adds.
func (b *backend) Order() string {
	order := "f32 in series, bf16 by pairs"
	if b.order == kernels.Tiles {
		order = "f32 in series, bf16 in tiles"
	}
	if C.GoString(b.ops.name) == "portable" && runtime.GOARCH != "arm64" {
		return order + kernels.Rounded // baseline x86-64 has no fused multiply-adds
	}
	return order
}

// threads is how many threads share an operation, the caller's included.
func (b *backend) threads() int { return len(b.scratches) }

// Sync does nothing: operations are finished when they return.
func (b *backend) Sync() error { return nil }

// Close ends the workers and frees their memory. Buffers live as long as they are referenced.
func (b *backend) Close() error {
	b.pool.close()
	for i := range b.scratches {
		b.scratches[i].free()
	}
	for i := range b.shares {
		b.shares[i].free()
	}
	C.grpo_free(b.args, C.ARGS_BYTES)
	b.args = nil
	return nil
}

const together = "cpu: two goroutines compute on one backend at a time; give each its own, or have them share a lock (grpo.WithTurn)"

// checkIdle panics if another goroutine's operation is running, because both would use the same arguments. The check is racy, but
// goroutines that share a backend fail it sooner or later, mostly before results are wrong.
func (b *backend) checkIdle() {
	if b.busy.Load() {
		panic(together)
	}
}

// args is the zeroed argument struct of the next operation. It is in C memory, so that it may hold pointers
// for a kernel.
func args[T any](b *backend) *T {
	b.checkIdle()
	a := (*T)(b.args)
	var zero T
	if unsafe.Sizeof(zero) > C.ARGS_BYTES {
		panic("cpu: arguments do not fit into ARGS_BYTES")
	}
	*a = zero
	return a
}

// run runs tasks [0, tasks) of the kernel with the arguments that args returned, and waits. Threads claim ranges of tasks,
// long ones first, of at least grain tasks.
func (b *backend) run(kernel *C.grpo_kernel, tasks, grain int) {
	if tasks > 0 {
		if !b.busy.CompareAndSwap(false, true) {
			panic(together)
		}
		b.pool.run(kernel, b.args, tasks, max(grain, 1))
		b.busy.Store(false)
	}
}

// release ends an operation and drops its references to memory; every launcher defers it.
func (b *backend) release() {
	clear(b.held)
	b.held = b.held[:0]
}
