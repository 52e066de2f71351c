package cpu

// #include "kernels.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// spinTime is how long an idle worker watches for the next operation before it sleeps: longer than the
// gap between two operations of a running program, shorter than anyone notices.
const spinTime = 20 * time.Microsecond

// A pool is the caller of run and some goroutines that help it. Tasks are drawn from one counter (in C),
// so who does what is left to chance, and never changes a result.
//
// turn counts up twice for each job: odd while it is open to helpers, even when the caller has found it
// empty. A helper that has entered (active) is waited for; one that comes late just goes back. So nobody
// waits for a sleeper.
type pool struct {
	job    *C.grpo_job
	turn   atomic.Uint32
	active atomic.Int32
	closed atomic.Bool

	waiting atomic.Bool   // the caller sleeps until active is 0
	done    chan struct{} // wakes it

	helpers []*helper
	ended   sync.WaitGroup
}

type helper struct {
	asleep  atomic.Bool
	wake    chan struct{}
	scratch unsafe.Pointer
	_       [64]byte
}

func newPool(workers int) *pool {
	p := &pool{
		job:  (*C.grpo_job)(C.grpo_alloc(C.sizeof_grpo_job)),
		done: make(chan struct{}, 1),
	}
	for range workers - 1 {
		h := &helper{wake: make(chan struct{}, 1)}
		p.helpers = append(p.helpers, h)
		p.ended.Add(1)
		go p.help(h)
	}
	return p
}

func (p *pool) run(b *Backend, kernel *C.grpo_kernel, tasks, grain int) {
	j := p.job
	j.kernel, j.args = kernel, b.args
	j.tasks, j.grain, j.next = C.int64_t(tasks), C.int64_t(grain), 0
	own := b.scratches[len(p.helpers)].p
	helpers := min(len(p.helpers), (tasks-1)/grain)
	if helpers == 0 {
		C.grpo_work(j, own)
		return
	}
	for i, h := range p.helpers {
		h.scratch = b.scratches[i].p
	}
	p.turn.Add(1)
	for _, h := range p.helpers[:helpers] {
		h.rouse()
	}
	C.grpo_work(j, own)
	p.turn.Add(1)
	p.await()
}

// await returns when no helper is active any more. Being woken is no proof of that: a helper may be slow
// to wake the caller of a job that has ended without it, and wake that of the next. So it looks again.
func (p *pool) await() {
	for start, n := time.Now(), 0; p.active.Load() != 0; n++ {
		if n%64 == 63 && time.Since(start) > spinTime {
			p.waiting.Store(true)
			if p.active.Load() != 0 || !p.waiting.CompareAndSwap(true, false) {
				<-p.done
			}
		}
	}
}

func (p *pool) help(h *helper) {
	defer p.ended.Done()
	for seen := uint32(0); !p.closed.Load(); {
		turn := p.next(h, seen)
		seen = turn
		if turn%2 == 0 {
			continue
		}
		p.active.Add(1)
		if p.turn.Load() == turn {
			C.grpo_work(p.job, h.scratch)
		}
		if p.active.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
			p.done <- struct{}{}
		}
	}
}

// next waits for a turn other than the one seen: at first watching, then asleep.
func (p *pool) next(h *helper, seen uint32) uint32 {
	for {
		for start, n := time.Now(), 0; ; n++ {
			if turn := p.turn.Load(); turn != seen {
				return turn
			}
			if n%64 == 63 && time.Since(start) > spinTime {
				break
			}
		}
		h.asleep.Store(true)
		if p.turn.Load() == seen || !h.asleep.CompareAndSwap(true, false) {
			<-h.wake
		}
	}
}

func (h *helper) rouse() {
	if h.asleep.CompareAndSwap(true, false) {
		h.wake <- struct{}{}
	}
}

func (p *pool) close() {
	p.closed.Store(true)
	p.turn.Add(2)
	for _, h := range p.helpers {
		h.rouse()
	}
	p.ended.Wait()
	runtime.KeepAlive(p)
	C.grpo_free(unsafe.Pointer(p.job), C.sizeof_grpo_job)
}
