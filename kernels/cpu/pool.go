package cpu

// #include "kernels.h"
import "C"

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// spinTime is how long an idle helper spins before it sleeps.
const spinTime = C.SPIN_MICROSECONDS * time.Microsecond

// pool is the goroutine that calls run and the C threads that help it; see pool.c.
type pool struct{ c *C.grpo_pool }

func newPool(workers int) (pool, error) {
	c := C.grpo_pool_open(C.int(workers))
	if c == nil {
		return pool{}, fmt.Errorf("cpu: the system gives no %d threads", workers)
	}
	return pool{c}, nil
}

// run runs the tasks and waits. Go's scheduler marks a goroutine for preemption after 10 ms, and its monitor thread then polls
// every few microseconds for more of them; so the caller yields before that.
func (p pool) run(kernel *C.grpo_kernel, args unsafe.Pointer, tasks, grain int) {
	C.grpo_pool_start(p.c, kernel, args, C.int64_t(tasks), C.int64_t(grain))
	for C.grpo_pool_work(p.c) != 0 {
		runtime.Gosched()
	}
}

func (p pool) close() { C.grpo_pool_close(p.c) }
